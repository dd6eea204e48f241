"""`panprivacy compile`: what a first run would compile, compiled when the package is installed."""


def compile() -> None:
    """Compile what a first run would compile.

    Example: [bold]panprivacy compile[/bold]

    Run it after the installation, or while an image is built. Numba keeps what it compiles beside the package, or in
    the folder that NUMBA_CACHE_DIR names, for this processor.
    """
    from time import perf_counter

    from panprivacy.kernels import ALWAYS, READERS, SOME, load_kernels
    from panprivacy.privacy.noise_kernels import load_gaussian

    began = perf_counter()
    load_kernels((*ALWAYS, *SOME, *READERS))
    load_gaussian()
    print(f"compiled, or found compiled, in {perf_counter() - began:.1f} s")
