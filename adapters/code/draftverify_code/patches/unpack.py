"""Lays out files in the working directory. The text of this file runs where a candidate runs, before anything of it.

Standard library only, as little of it as can be, and also that of the older Python of a container image.
"""

import sys

if sys.path and sys.path[0] == "":
    del sys.path[0]  # what is laid out is not to stand in for modules that are imported here

import os

LINK = 0o120000  # git's mode of a symbolic link


def unpack(names):
    """Write the files of archives; those of later archives replace those of earlier ones, and a mode of 0 removes."""
    placed, links = set(), []
    archives = [open(name, "rb") for name in reversed(names)]  # noqa: SIM115 - closed below
    for name in names:
        if os.path.dirname(name) == "":  # else it is shared
            remove(name)  # and a candidate's file of its name is one like any other
    for archive in archives:
        with archive:
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
                    put(os.fsdecode(path), int(mode), content)
                    if int(mode) == LINK and not command:
                        links.append(os.fsdecode(path))
    for path in links:
        follow(path)
    if os.path.isdir("src"):
        source = os.path.abspath("src")
        sys.path.append(source)  # behind the standard library, which a candidate is not to replace
        os.environ["PYTHONPATH"] = source


def put(path, mode, content):
    """Write one file, or remove it."""
    if not mode:
        remove(path)
        remove(os.path.dirname(path), os.removedirs)
        return
    try:
        write(path, mode, content)
    except OSError:  # the directory is not there, or something else is
        remove(path)
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        write(path, mode, content)


def write(path, mode, content):
    """Make a file, or a symbolic link."""
    if mode == LINK:
        os.symlink(content, path)
        return
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & 0o777)
    content = memoryview(content)
    while content:
        content = content[os.write(number, content) :]
    os.close(number)


def follow(path):
    """Put a copy in the place of a link to a file, and nothing in that of one to nowhere.

    Who watches over the files of a test run reads no links.
    """
    if os.path.isfile(path):
        with open(path, "rb") as file:
            content = file.read()
        put(path, 0o644, content)
    elif not os.path.exists(path):
        remove(path)


def remove(path, way=os.unlink):
    """Remove what may not be there, may be shared, or may hold more."""
    try:
        way(path)
    except OSError:
        return


cut = sys.argv.index("--")
command = sys.argv[cut + 1 :]
unpack(sys.argv[1:cut])
del sys.argv[1:]
if command:
    try:
        os.execvp(command[1], command[1:])
    except OSError as error:
        sys.exit(f"{command[0]}{command[1]} could not be started: {error}")
