"""Memory for what depends on people: bits in pages of their own, scratch that is wiped, and who owns both."""
