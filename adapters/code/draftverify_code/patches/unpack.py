"""Lays out files in the working directory. The text of this file runs where a candidate runs, before anything of it.

Standard library only, as little of it as can be, and also that of the older Python of a container image.
"""

import sys

if sys.path and sys.path[0] == "":
    del sys.path[0]  # what is laid out is not to stand in for modules that are imported here

import os


def unpack(names):
    """Write the files of archives; those of later archives replace those of earlier ones, and a mode of 0 removes."""
    placed, folders = set(), {""}
    for name in reversed(names):
        with open(name, "rb") as archive:
            archive.seek(-8, 2)
            length = int.from_bytes(archive.read(8), "big")
            archive.seek(-8 - length, 2)
            fields = archive.read(length).split(b"\0")
            archive.seek(0)
            for place in range(0, len(fields) - 2, 3):
                path, mode, size = fields[place : place + 3]
                content = archive.read(int(size))
                if path not in placed:
                    placed.add(path)
                    put(os.fsdecode(path), int(mode), content, folders)
        remove(name)
    if os.path.isdir("src"):
        source = os.path.abspath("src")
        sys.path.append(source)  # behind the standard library, which a candidate is not to replace
        os.environ["PYTHONPATH"] = source


def put(path, mode, content, folders):
    """Write one file, or remove it."""
    folder = os.path.dirname(path)
    remove(path)
    if not mode:
        remove(folder, os.removedirs)
        return
    if folder not in folders:
        os.makedirs(folder, exist_ok=True)
        folders.add(folder)
    if mode == 0o120000:
        os.symlink(content, path)
        return
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & 0o777), "wb") as file:
        file.write(content)


def remove(path, way=os.unlink):
    """Remove what may not be there, may be shared, or may hold more."""
    try:
        way(path)
    except OSError:
        return


cut = sys.argv.index("--")
unpack(sys.argv[1:cut])
command = sys.argv[cut + 1 :]
del sys.argv[1:]
if command:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"draftverify: {command[0]} could not be started: {error}")
