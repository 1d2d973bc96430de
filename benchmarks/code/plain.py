"""Plain Python's verdict on programs: each with its tests in one namespace, in a process of its own.

    python -I benchmarks/code/plain.py < jobs > verdicts

A line of `jobs` is JSON: `program`, `tests`, `doctest` (whether the tests are examples), `timeout` in seconds, `memory`
in MiB. A line of `verdicts` is JSON: `verdict` ("pass", "reject", "timeout") and `said`, the end of what was written to
standard error. The program is the module `program`, as if the tests had imported it, so what stands under
`if __name__ == "__main__"` does not run. Standard library only, and nothing of this one; each job is a fork in an empty
directory.
"""

import contextlib
import doctest
import importlib.util
import json
import linecache
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import traceback

PASSED = 42


def run(job):
    """The program and its tests, in this process; the exit status."""
    with open("program.py", "w") as file:
        file.write(job["program"])
    sys.path.insert(0, os.getcwd())
    spec = importlib.util.spec_from_file_location("program", "program.py")
    module = sys.modules["program"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not job["doctest"]:
        linecache.cache["tests.py"] = len(job["tests"]), None, job["tests"].splitlines(True), "tests.py"
        exec(compile(job["tests"], "tests.py", "exec"), vars(module))
        return PASSED
    examples = doctest.DocTestParser().get_doctest(job["tests"], vars(module), "tests", None, 0)
    result = doctest.DocTestRunner().run(examples, out=sys.stderr.write)
    return 1 if result.failed or not result.attempted else PASSED


def child(job):
    """Never returns."""
    status = 1
    try:
        os.setsid()
        for number, name in enumerate((os.devnull, os.devnull, "errors")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
        resource.setrlimit(resource.RLIMIT_AS, (job["memory"] << 20,) * 2)
        status = run(job)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def verdict(job):
    """What becomes of one job."""
    directory = tempfile.mkdtemp()
    home = os.getcwd()
    os.chdir(directory)
    try:
        pid = os.fork()
        if pid == 0:
            child(job)
        ended = os.pidfd_open(pid)
        late = not select.select([ended], [], [], job["timeout"])[0]
        os.close(ended)
        with contextlib.suppress(ProcessLookupError):  # when the whole group has ended
            os.killpg(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with open("errors", errors="replace") as file:
            said = file.read()[-2000:]
    finally:
        os.chdir(home)
        shutil.rmtree(directory, ignore_errors=True)
    return {"verdict": "timeout" if late else "pass" if status == PASSED else "reject", "said": said}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(verdict(json.loads(line))), flush=True)
