"""The estimators: what users of the library build, feed and release."""
