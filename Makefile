.PHONY: docs
docs: # the documentation, as CI builds it; pip install '.[docs]'
	sphinx-build -W -n -q -j auto docs docs/_build/html
