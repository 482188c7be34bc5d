"""Isolated processes with real faults: whatever a job does costs that job, and no process outlives who wanted it."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from workbench.errors import EnvironmentFault
from workbench.isolation import IsolatedProcess, JobError, JobTimeout, Message, Nursery, Pool, ProcessDied

JOBS = Path(__file__).parent
ECHO, COUNT, DESCRIBE, MISBEHAVE = (f"isolation_jobs:{name}" for name in ("echo", "count", "describe", "misbehave"))
ENVIRONMENT = {"PYTHONPATH": str(JOBS)}
LIMIT_S = 20.0  # for what must come
SHORT_S = 0.2  # for what must not
GONE_S = 3.0

OWNER = """
import sys
from workbench.isolation import Message, Nursery
nursery = Nursery(["isolation_jobs"])
for index, way in enumerate(sys.argv[2:]):
    nursery.start("isolation_jobs:misbehave").send(Message({"way": way, "pids": f"{sys.argv[1]}/{index}"}))
nursery.start("isolation_jobs:echo")
print(nursery.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery(["isolation_jobs"], environment=ENVIRONMENT) as nursery:
        yield nursery


@pytest.fixture
def process(nursery: Nursery) -> Iterator[IsolatedProcess]:
    """One that does what it is told, however bad."""
    process = nursery.start(MISBEHAVE)
    yield process
    process.kill()


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.005)


def read_pids(path: Path) -> list[int]:
    wait_until(path.exists)
    return [int(pid) for pid in path.read_text(encoding="ascii").split()]


def wait_until_gone(pids: list[int]) -> None:
    wait_until(lambda: not any(map(lives, pids)), GONE_S)


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def way(name: str, **values: Any) -> Message:
    return Message({"way": name, **{key: str(value) for key, value in values.items()}})


def receive(process: IsolatedProcess, limit_s: float) -> Message:
    """The answer to what was sent, waited for as a pool does."""
    deadline = time.monotonic() + limit_s
    while (answer := process.take()) is None:
        if time.monotonic() >= deadline:
            raise process.expire(limit_s)
        time.sleep(0.005)
    return answer


# One process


def test_values_and_blobs_of_any_size_go_both_ways(nursery: Nursery) -> None:
    process = nursery.start(ECHO)
    blobs = (os.urandom(9_000_001), b"", bytes(3_000_000), b"x")
    for request in (Message({}), Message({"text": "ä\ud800\n", "list": [1, 2.5, None, {"a": True}]}), Message({"n": "n" * 5_000_000}, blobs)):
        assert process.call(request, LIMIT_S) == request


def test_two_hundred_jobs_keep_the_process_its_state_and_its_descriptors(nursery: Nursery) -> None:
    process = nursery.start(COUNT)
    answers = [process.call(Message({}), LIMIT_S).values for _ in range(200)]
    assert [answer["calls"] for answer in answers] == list(range(1, 201))
    assert {answer["pid"] for answer in answers} == {process.pid}
    assert len({answer["descriptors"] for answer in answers}) == 1


def test_a_process_has_its_own_session_and_nothing_that_belongs_to_others(nursery: Nursery) -> None:
    neighbours = [nursery.start(ECHO) for _ in range(3)]
    process = nursery.start(DESCRIBE)
    assert process.call(Message({}), LIMIT_S).values == {
        "descriptors": ["/dev/null", "pipe", "pipe", "pipe", "socket"],
        "input": "",
        "oom_score_adj": 1000,
        "group": process.pid,
        "session": process.pid,
        "interruptible": False,
        "frozen": True,
    }
    assert all(neighbour.alive for neighbour in neighbours)


def test_variables_are_set_for_one_process_alone(nursery: Nursery) -> None:
    marked, other = (nursery.start(COUNT, environment=environment) for environment in ({"MARK": "a=b\n"}, {}))
    assert marked.call(Message({}), LIMIT_S).values["environment"]["MARK"] == "a=b\n"
    assert "MARK" not in other.call(Message({}), LIMIT_S).values["environment"]


def test_several_processes_can_be_waited_for_at_once(nursery: Nursery, tmp_path: Path) -> None:
    waiting, ready = nursery.start(MISBEHAVE), nursery.start(MISBEHAVE)
    waiting.send(way("wait_for", path=tmp_path / "never"))
    ready.send(way("echo"))
    with selectors.DefaultSelector() as selector:
        for process in (waiting, ready):
            selector.register(process, selectors.EVENT_READ)
        assert [key.fileobj for key, _ in selector.select(LIMIT_S)] == [ready]
    assert waiting.take() is None
    assert ready.take() == way("echo")


@pytest.mark.parametrize(
    ("name", "kind", "part"),
    [
        ("raise", "ValueError", " is wrong\n"),
        ("raise_unprintable", "UnprintableError", "_raise_unprintable"),
        ("leave", "SystemExit", "leaving"),
        ("return_nonsense", "TypeError", "must return a Message, not int"),
        ("return_no_json", "TypeError", "set is not JSON serializable"),
    ],
)
def test_an_exception_comes_back_and_the_process_goes_on(process: IsolatedProcess, name: str, kind: str, part: str) -> None:
    with pytest.raises(JobError) as raised:
        process.call(way(name), LIMIT_S)
    assert raised.value.kind == kind
    assert part in raised.value.text
    assert len(raised.value.text) < 201_000
    assert process.call(way("echo"), LIMIT_S) == way("echo")


def test_an_entry_that_is_not_there_is_an_error_of_the_job(nursery: Nursery) -> None:
    with pytest.raises(JobError, match="has no attribute 'nothing'"):
        nursery.start("isolation_jobs:nothing").call(Message({}), LIMIT_S)


def test_memory_beyond_the_limit_is_refused_and_given_back(nursery: Nursery) -> None:
    process = nursery.start(MISBEHAVE, memory_limit_bytes=500_000_000)
    for _ in range(3):
        with pytest.raises(JobError) as raised:
            process.call(way("allocate"), LIMIT_S)
        assert raised.value.kind == "MemoryError"
    assert process.call(way("echo"), LIMIT_S) == way("echo")


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("crash", "died with SIGSEGV"),
        ("exit", "ended with exit code 3"),
        ("die", "was killed (out of memory?)"),
        ("send_half", "ended with exit code 0"),
        ("send_garbage", "was killed: it sent no frame, or one that is too large"),
        ("send_too_large", "was killed: it sent no frame, or one that is too large"),
        ("send_deep", "was killed: it sent a frame without a proper head"),
        ("close_connection", "was killed: it closed its connection"),
    ],
)
def test_a_death_is_told_with_its_cause(process: IsolatedProcess, name: str, cause: str) -> None:
    for request in (way(name), way("echo")):  # it stays dead
        with pytest.raises(ProcessDied) as died:
            process.call(request, LIMIT_S)
        assert died.value.cause == cause
    assert not process.alive
    assert not lives(process.pid)


def test_last_words_hold_what_was_printed_and_where_it_crashed(process: IsolatedProcess) -> None:
    with pytest.raises(ProcessDied) as died:
        process.call(way("crash"), LIMIT_S)
    assert died.value.last_words.startswith("on the way to the crash\nFatal Python error: Segmentation fault\n")
    assert "in _crash" in died.value.last_words


@pytest.mark.parametrize("name", ["spin", "sleep", "sleep_with_gil", "stop", "spawn", "write_endlessly"])
def test_a_hang_is_a_timeout_and_nothing_of_it_is_left(process: IsolatedProcess, tmp_path: Path, name: str) -> None:
    process.send(way(name, pids=tmp_path / "pids"))
    pids = read_pids(tmp_path / "pids")
    assert all(map(lives, pids))
    with pytest.raises(JobTimeout) as late:
        receive(process, SHORT_S)
    assert not lives(process.pid)
    wait_until_gone(pids)
    assert len(late.value.last_words) <= 4096
    assert ("never enough" in late.value.last_words) == (name == "write_endlessly")
    with pytest.raises(ProcessDied, match="was killed: no answer within"):
        process.call(way("echo"), LIMIT_S)


def test_what_a_crashed_process_started_ends_with_it(process: IsolatedProcess, tmp_path: Path) -> None:
    with pytest.raises(ProcessDied, match="died with SIGSEGV"):
        process.call(way("spawn_and_crash", pids=tmp_path / "pids"), LIMIT_S)
    assert not any(map(lives, read_pids(tmp_path / "pids")))


def test_ending_what_a_process_left_hits_no_other_that_just_starts(nursery: Nursery, tmp_path: Path) -> None:
    for index in range(20):
        process = nursery.start(MISBEHAVE)
        process.send(way("spawn", pids=tmp_path / str(index)))
        read_pids(tmp_path / str(index))
        process.kill()
        assert nursery.start(ECHO).call(Message({}), LIMIT_S) == Message({})


def test_a_process_that_takes_no_request_holds_nobody_up(process: IsolatedProcess) -> None:
    os.kill(process.pid, signal.SIGSTOP)
    process.send(Message({}, (bytes(50_000_000),)), SHORT_S)
    with pytest.raises(ProcessDied, match="it took no request"):
        receive(process, LIMIT_S)
    assert not lives(process.pid)


def test_a_process_killed_from_outside_in_the_middle_of_a_job_is_told(process: IsolatedProcess, tmp_path: Path) -> None:
    process.send(way("spin", pids=tmp_path / "pids"))
    os.kill(*read_pids(tmp_path / "pids"), signal.SIGKILL)
    with pytest.raises(ProcessDied, match="was killed"):
        receive(process, LIMIT_S)


def test_ctrl_c_in_a_terminal_leaves_the_processes_to_their_owner(nursery: Nursery, process: IsolatedProcess) -> None:
    assert nursery.pid is not None
    assert process.call(way("echo"), LIMIT_S)
    for pid in (nursery.pid, process.pid):
        os.kill(pid, signal.SIGINT)
    assert process.call(way("echo"), LIMIT_S) == way("echo")
    assert nursery.start(ECHO).call(Message({}), LIMIT_S) == Message({})


def test_requests_out_of_turn_and_bad_ones_are_refused(process: IsolatedProcess) -> None:
    with pytest.raises(TypeError):
        process.send(Message({"set": {1}}))
    with pytest.raises(RuntimeError, match="asked nothing"):
        receive(process, LIMIT_S)
    process.send(way("echo"))
    with pytest.raises(RuntimeError, match="not answered"):
        process.send(way("echo"))
    assert receive(process, LIMIT_S) == way("echo")


# The nursery


def test_processes_leave_no_descriptors_behind() -> None:
    with Nursery(["isolation_jobs"], environment=ENVIRONMENT) as nursery:
        nursery.start(ECHO)
        forker = nursery.pid
        assert forker is not None
        ours, its = descriptors(os.getpid()), descriptors(forker)
        for _ in range(20):
            process = nursery.start(MISBEHAVE)
            with pytest.raises(ProcessDied):
                process.call(way("crash"), LIMIT_S)
        assert descriptors(os.getpid()) == ours
        wait_until(lambda: descriptors(forker) <= its)  # it tells first, and cleans up then


def test_a_killed_nursery_takes_its_processes_along_and_is_replaced(tmp_path: Path) -> None:
    with Nursery(["isolation_jobs"], environment=ENVIRONMENT) as nursery:
        busy, idle = nursery.start(MISBEHAVE), nursery.start(ECHO)
        busy.send(way("spawn_near", pids=tmp_path / "pids"))
        pids, first = [*read_pids(tmp_path / "pids"), idle.pid], nursery.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        for process, ask in ((busy, lambda: receive(busy, LIMIT_S)), (idle, lambda: idle.call(Message({}), LIMIT_S))):
            with pytest.raises(ProcessDied, match="ended with the process that it was forked from"):
                ask()
            assert not process.alive
        wait_until_gone(pids)
        assert nursery.start(ECHO).call(Message({}), LIMIT_S) == Message({})
        assert nursery.pid != first


def test_closing_ends_everything_and_is_final(tmp_path: Path) -> None:
    nursery = Nursery(["isolation_jobs"], environment=ENVIRONMENT)
    busy, idle = nursery.start(MISBEHAVE), nursery.start(ECHO)
    busy.send(way("spawn", pids=tmp_path / "pids"))
    pids = [*read_pids(tmp_path / "pids"), idle.pid, nursery.pid or 0]
    nursery.close()
    nursery.close()
    assert not any(map(lives, pids))
    with pytest.raises(RuntimeError, match="closed"):
        nursery.start(ECHO)


def test_a_module_that_cannot_be_loaded_is_a_fault_with_its_traceback_and_can_be_mended(tmp_path: Path) -> None:
    module = tmp_path / "broken.py"
    module.write_text("raise OSError('no such device')", encoding="ascii")
    with Nursery(["broken"], environment={"PYTHONPATH": os.pathsep.join([str(tmp_path), str(JOBS)])}) as nursery:
        nursery.warm()
        with pytest.raises(EnvironmentFault, match=r"broken cannot be loaded: OSError: no such device\.") as fault:
            nursery.start(ECHO)
        assert "Traceback" in fault.value.__notes__[0]
        module.write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", encoding="ascii")
        with pytest.raises(EnvironmentFault, match=r"loads broken died with SIGSEGV\."):
            nursery.start(ECHO)
        module.write_text("", encoding="ascii")
        assert nursery.start(ECHO).call(Message({}), LIMIT_S) == Message({})


def test_a_nursery_that_still_loads_is_closed_at_once(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(f"open({str(tmp_path / 'begun')!r}, 'x').close()\nwhile True: pass", encoding="utf-8")
    nursery = Nursery(["endless"], environment={"PYTHONPATH": str(tmp_path)})
    nursery.warm()
    pid = nursery.pid
    wait_until((tmp_path / "begun").exists)
    started = time.monotonic()
    nursery.close()
    assert time.monotonic() - started < GONE_S
    assert pid is not None
    assert not lives(pid)


def test_nothing_outlives_an_owner_that_is_killed(tmp_path: Path) -> None:
    ways = ["spin", "sleep_with_gil", "spawn", "stop", "write_endlessly"]
    command = [sys.executable, "-c", OWNER, str(tmp_path), *ways]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(JOBS), *sys.path])}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as owner:
        assert owner.stdout is not None
        nursery = int(owner.stdout.readline())
        pids = [pid for index in range(len(ways)) for pid in read_pids(tmp_path / str(index))]
        pids += [child.pid for child in psutil.Process(owner.pid).children(recursive=True)]
        assert nursery in pids
        assert all(map(lives, pids))
        owner.kill()
    wait_until_gone(pids)


def test_a_nursery_that_still_loads_ends_with_its_owner(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(f"open({str(tmp_path / 'begun')!r}, 'x').close()\nwhile True: pass", encoding="utf-8")
    code = "from workbench.isolation import Nursery; import sys; n = Nursery(['endless']); n.warm(); print(n.pid, flush=True); sys.stdin.read()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        wait_until((tmp_path / "begun").exists)
        owner.kill()
    wait_until_gone([pid])


# The pool


def test_outcomes_come_in_the_order_in_which_jobs_end(nursery: Nursery, tmp_path: Path) -> None:
    jobs = [("slow", way("wait_for", path=tmp_path / "go")), ("fast", way("echo"))]
    with Pool(nursery, MISBEHAVE, size=2) as pool:
        outcomes = pool.run(jobs, timeout_s=LIMIT_S)
        assert next(outcomes)[:2] == ("fast", way("echo"))
        (tmp_path / "go").touch()
        key, answer, took_s = next(outcomes)
        assert (key, answer) == jobs[0]
        assert 0 < took_s < LIMIT_S
        assert list(outcomes) == []


def test_a_pool_takes_the_next_job_when_a_process_is_free_and_keeps_its_processes(nursery: Nursery) -> None:
    taken = yielded = 0

    def jobs() -> Iterator[tuple[int, Message]]:
        nonlocal taken
        for taken in range(1, 101):
            assert taken <= yielded + 2, "one that runs, and one whose outcome waits"
            yield taken, Message({})

    with Pool(nursery, COUNT, size=1) as pool:
        pids, keys = set(), []
        for key, answer, _ in pool.run(jobs(), timeout_s=LIMIT_S):
            yielded += 1
            assert isinstance(answer, Message)
            pids.add(answer.values["pid"])
            keys.append(key)
    assert keys == list(range(1, 101))
    assert len(pids) == 1


def test_a_job_that_fails_costs_itself_alone(nursery: Nursery, tmp_path: Path) -> None:
    names = ["echo", "crash", "echo", "raise", "sleep", "exit", "echo"] * 2
    jobs = [(index, way(name, pids=tmp_path / str(index))) for index, name in enumerate(names)]
    expected = {"crash": ProcessDied, "exit": ProcessDied, "raise": JobError, "sleep": JobTimeout, "echo": Message}
    with Pool(nursery, MISBEHAVE, size=2) as pool:
        before = descriptors(os.getpid())
        outcomes = {key: (answer, took_s) for key, answer, took_s in pool.run(jobs, timeout_s=SHORT_S * 2)}
        assert {key: type(answer) for key, (answer, _) in outcomes.items()} == {index: expected[name] for index, name in enumerate(names)}
        assert all(took_s >= SHORT_S * 2 for answer, took_s in outcomes.values() if isinstance(answer, JobTimeout))
        assert len(list(pool.run(jobs[:1], timeout_s=LIMIT_S))) == 1
    assert descriptors(os.getpid()) <= before


@pytest.mark.parametrize("how", ["stop", "close the iterator", "close the pool"])
def test_a_run_that_is_ended_early_kills_what_runs(nursery: Nursery, tmp_path: Path, how: str) -> None:
    jobs = [("fast", way("echo")), *((name, way(name, pids=tmp_path / name)) for name in ("spin", "sleep", "spawn"))]
    pids: list[int] = []
    wanted = how == "stop"

    def stop() -> bool:
        return wanted and all((tmp_path / name).exists() for name in ("spin", "sleep"))

    with Pool(nursery, MISBEHAVE, size=2) as pool:
        outcomes = pool.run(jobs, timeout_s=LIMIT_S, stop=stop)
        assert next(outcomes)[0] == "fast"
        with pytest.raises(RuntimeError, match="in use"):
            next(pool.run(jobs, timeout_s=LIMIT_S))
        if wanted:
            assert list(outcomes) == []
        pids = read_pids(tmp_path / "spin") + (read_pids(tmp_path / "sleep") if wanted else [])
        if how == "close the iterator":
            outcomes.close()  # type: ignore[attr-defined]
        elif how == "close the pool":
            pool.close()
            assert list(outcomes) == []
        assert not any(map(lives, pids))
        assert not (tmp_path / "spawn").exists()


def test_a_process_that_died_between_jobs_is_replaced(nursery: Nursery) -> None:
    def pid() -> int:
        ((_, answer, _),) = pool.run([(0, Message({}))], timeout_s=LIMIT_S)
        assert isinstance(answer, Message)
        return int(answer.values["pid"])

    with Pool(nursery, COUNT, size=1) as pool:
        first = pid()
        assert pid() == first
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: not lives(first))
        assert pid() != first


def test_a_request_that_cannot_be_sent_ends_the_run_with_its_error(nursery: Nursery) -> None:
    with Pool(nursery, ECHO, size=2) as pool:
        with pytest.raises(TypeError):
            list(pool.run([(0, Message({"set": {1}}))], timeout_s=LIMIT_S))
        assert len(list(pool.run([(0, Message({}))], timeout_s=LIMIT_S))) == 1
