"""Tasks in threads that start at the same moment."""

import threading
from collections.abc import Callable


def run_together(*tasks: Callable[[], object]) -> list[BaseException]:
    """Run tasks in threads of their own; return what they raised."""
    raised: list[BaseException] = []
    ready = threading.Barrier(len(tasks))

    def guarded(task: Callable[[], object]) -> None:
        ready.wait()
        try:
            task()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised
