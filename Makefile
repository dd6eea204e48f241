html = docs/_build/html

.PHONY: docs
docs: # the documentation, as its tests build it, into another folder; pip install '.[docs]'
	sphinx-build -W -n -q -j auto docs $(html)
