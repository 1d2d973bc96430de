"""The local server: a list of runs, each run's report as it goes on, and the page on which people decide.

It needs the extra `view`, which is imported when a server is started.
"""

from __future__ import annotations

from pathlib import Path

from draftverify.plugins import required

__all__ = ["serve"]


def serve(
    root: str | Path,
    *,
    store: str | None = None,
    port: int = 0,
    open_browser: bool = False,
) -> None:
    """Serve a run, or the runs of a directory, on the loopback address until Ctrl-C.

    Args:
        root: a run directory, or one that holds run directories.
        store: the URL of their PostgreSQL store, where they have one.
        port: 0 takes any that is free.
        open_browser: open the page too.

    Raises:
        ResourceError: a package is missing, or the port is taken.
        StoreError: there are no such runs.
    """
    server = required("draftverify.view.server", "the local server", "view")
    server.run_server(root, store=store, port=port, open_browser=open_browser)
