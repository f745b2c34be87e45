"""What ranks tell one another before they have met, and what they can work out alone."""

from __future__ import annotations

import json
import os
import random
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from another_user import as_nobody
from machine import within

from hvdlite.exceptions import HorovodInternalError
from hvdlite.job import bootstrap
from hvdlite.job.bootstrap import by_ports, by_socket, offer, rendezvous
from hvdlite.job.bootstrap.offer import MAX_BYTES, Offer
from hvdlite.launch.environment import Identity
from hvdlite.launch.environment.identity import AtPorts, AtStore
from hvdlite.rendezvous import StoreClient, StoreServer, addresses

SECRET = bytes(range(32))
NO_MPI = bootstrap.MpiRequest()
_HAS_TO_PASS = "Open MPI's mpirun has to pass HVDLITE_SECRET"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened: list[StoreServer] = []
    monkeypatch.setattr(rendezvous, "_known", {})
    monkeypatch.setattr(offer, "_open", opened)
    yield
    for store in opened:  # which in a job last as long as the process
        store.close()


@pytest.mark.parametrize(
    "said",
    [
        Offer((("10.0.0.1", 4000), ("fd00::1", 4000), ("127.0.0.1", 4000)), SECRET),
        Offer((("10.0.0.1", 4000),), None, "salt", "proof"),
        Offer(problem="no such interface: ü"),
    ],
)
def test_an_offer_is_read_back(said: Offer) -> None:
    assert Offer.decode(said.encode()) == said


def test_a_machine_with_dozens_of_addresses_fits_into_one_message() -> None:
    many = tuple((f"fd00:1234:5678:9abc:def0:1234:5678:{n:x}", 65535) for n in range(64))
    assert len(Offer(many, SECRET).encode()) <= MAX_BYTES


def test_an_offer_does_not_show_its_secret() -> None:
    assert SECRET.hex() not in repr(Offer((), SECRET)) and repr(SECRET) not in repr(
        Offer((), SECRET)
    )


def test_what_is_no_offer_is_refused_and_nothing_else() -> None:
    dice = random.Random(1)
    good = Offer((("h", 1),), SECRET).encode()
    texts = [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        json.dumps(vars(Offer()) | {"addresses": 1}).encode(),
    ]
    texts += [good.replace(SECRET.hex().encode(), b"00"), good[:-1], b"<html>404</html>"]
    texts += [bytes(dice.choices(good + b"\0", k=len(good))) for _ in range(500)]
    for text in texts:
        with pytest.raises(ConnectionError, match="do all ranks run the same version of hvdlite"):
            Offer.decode(text)


def test_ports_and_keys_follow_from_the_job_alone() -> None:
    jobs = [f"SLURM_JOB_ID={n}" for n in range(200)]
    for job in jobs:
        ports = by_ports.candidates(job)
        assert ports == by_ports.candidates(job) and len(set(ports)) == 4
        assert all(20_000 <= port < 32_000 for port in ports)
    assert len({tuple(by_ports.candidates(job)) for job in jobs}) == len(jobs)
    assert len({by_ports.derived_key(job) for job in jobs}) == len(jobs)
    assert len(by_ports.derived_key("x")) == 32


def test_who_is_alone_opens_nothing() -> None:
    assert bootstrap.meet(Identity(), "", 1.0, NO_MPI) is None
    # Not even where a launcher has a store.
    alone = Identity(rendezvous_method=AtStore((("127.0.0.1", 1),)), secret=SECRET)
    assert bootstrap.meet(alone, "", 1.0, NO_MPI) is None


def test_one_of_several_ways_leads_to_the_store() -> None:
    with StoreServer(SECRET) as store, socket.create_server(("127.0.0.1", 0)) as silent:
        ways = (("127.0.0.1", 9), ("127.0.0.1", silent.getsockname()[1]), store.address)
        me = Identity(1, 2, rendezvous_method=AtStore(ways), secret=SECRET)
        place = bootstrap.meet(me, "", 10.0, NO_MPI)
        assert place is not None and place.address == store.address


def test_all_that_was_tried_is_told() -> None:
    me = Identity(
        1,
        2,
        launcher="srun",
        rendezvous_method=AtStore((("127.0.0.1", 9), ("nowhere.invalid", 1))),
        secret=SECRET,
    )
    with pytest.raises(HorovodInternalError, match="rank 1 of 2, started by srun") as error:
        bootstrap.meet(me, "", 0.5, NO_MPI)
    assert "127.0.0.1 port 9: " in str(error.value) and "nowhere.invalid port 1: " in str(
        error.value
    )
    assert "HVDLITE_START_TIMEOUT" in str(error.value)


def test_the_one_who_may_opens_the_store_unless_it_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    me = Identity(
        0, 2, rendezvous_method=AtStore((("127.0.0.1", port),), may_open=True), secret=SECRET
    )
    place = bootstrap.meet(me, "", 5.0, NO_MPI)
    assert place is not None and bootstrap.meet(me, "", 5.0, NO_MPI) == place
    with StoreClient(place.address, SECRET) as client:
        client.set("here", b"")
    # Another process comes as rank 0 of the same job: the store that is there is the one.
    rendezvous._known.clear()
    assert bootstrap.meet(me, "", 5.0, NO_MPI) == bootstrap.StoreAccess(("127.0.0.1", port), SECRET)
    with StoreClient(place.address, SECRET) as client:
        assert client.get("here", 1.0) == b""
    # And with another secret it is another job's.
    rendezvous._known.clear()
    stranger = Identity(
        0, 2, rendezvous_method=AtStore((("127.0.0.1", port),), may_open=True), secret=bytes(32)
    )
    with pytest.raises(HorovodInternalError, match="another job may be listening there"):
        bootstrap.meet(stranger, "", 5.0, NO_MPI)


def test_a_store_is_opened_on_ones_own_machine_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "_LOOK_SECONDS", 0.2)
    me = Identity(
        0, 2, rendezvous_method=AtStore((("192.0.2.1", 4000),), may_open=True), secret=SECRET
    )
    with pytest.raises(HorovodInternalError, match="its host does not have that address: give an"):
        bootstrap.meet(me, "", 5.0, NO_MPI)


def test_rank_0_has_to_be_where_the_others_look_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "n2")
    monkeypatch.setattr(addresses, "is_of_this_machine", lambda name: False)
    me = Identity(0, 2, launcher="srun", rendezvous_method=AtPorts(("192.0.2.1",), "job"))
    with pytest.raises(HorovodInternalError, match="rank 0 runs on n2, .* 192.0.2.1, which srun"):
        bootstrap.meet(me, "", 1.0, NO_MPI)


@pytest.mark.parametrize(
    ("secret", "text"), [(SECRET, "was given a secret"), (None, "was given no secret")]
)
def test_a_rank_that_nobody_answers_says_whether_it_was_given_a_secret(
    secret: bytes | None, text: str
) -> None:
    """Where ranks have nothing to tell one another by, one without the others' secret finds no
    store of theirs."""
    me = Identity(
        1, 2, launcher="srun", rendezvous_method=AtPorts(("127.0.0.1",), "job"), secret=secret
    )
    with pytest.raises(HorovodInternalError, match=f"This rank {text}.* need the same secret"):
        bootstrap.meet(me, "", 0.2, NO_MPI)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_public_address_needs_a_secret_or_the_users_word(
    rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "is_public", lambda address: address == "127.0.0.1")
    launcher = "the launcher that set MASTER_ADDR"
    closed = AtPorts(("127.0.0.1",), f"public {os.getpid()}")
    with pytest.raises(
        RuntimeError,
        match=f"{launcher} cannot give the ranks a secret, and 127.0.0.1 is a public address.*"
        "HVDLITE_SECRET_FILE.*HVDLITE_ALLOW_OPEN_JOB=1",
    ):
        bootstrap.meet(
            Identity(rank, 2, launcher=launcher, rendezvous_method=closed), "", 0.2, NO_MPI
        )
    opened = AtPorts(closed.hosts, closed.job, may_be_open=True)
    for may in (
        Identity(rank, 2, launcher=launcher, rendezvous_method=opened),
        Identity(rank, 2, launcher=launcher, rendezvous_method=closed, secret=SECRET),
    ):
        if rank == 0:
            assert bootstrap.meet(may, "", 0.2, NO_MPI) is not None
        else:
            with pytest.raises(HorovodInternalError, match="no answer within"):
                bootstrap.meet(may, "", 0.2, NO_MPI)


def test_of_several_ways_to_rank_0_the_public_ones_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slurm names the host of srun as well, which may be a login node."""
    monkeypatch.setattr(addresses, "is_public", lambda address: address == "127.0.0.2")
    way = AtPorts(("127.0.0.1", "127.0.0.2"), f"two ways {os.getpid()}")
    with pytest.raises(HorovodInternalError, match="no answer within") as error:
        bootstrap.meet(Identity(1, 2, launcher="srun", rendezvous_method=way), "", 0.2, NO_MPI)
    assert "127.0.0.2" not in str(error.value)


def test_a_rank_that_comes_from_a_public_address_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Rank 0 listens on all interfaces, also where MASTER_ADDR is private."""
    way = AtPorts(("127.0.0.1",), f"comes {os.getpid()}")
    place = bootstrap.meet(Identity(0, 2, launcher="srun", rendezvous_method=way), "", 1.0, NO_MPI)
    assert place is not None
    with StoreClient(place.address, place.secret, within(5)):
        pass
    monkeypatch.setattr(addresses, "is_public", lambda address: address.endswith("127.0.0.1"))
    with pytest.raises(ConnectionError):
        StoreClient(place.address, place.secret, within(5))
    assert "127.0.0.1 is a public address" in caplog.text


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2001:4860:4860::8888", True),
        ("::ffff:8.8.8.8", True),
        ("127.0.0.1", False),
        ("::1", False),
        ("10.1.2.3", False),
        ("172.17.0.1", False),
        ("192.168.1.1", False),
        ("169.254.1.1", False),
        ("100.64.0.1", False),  # of a provider's own network, or of a VPN
        ("fd00::1", False),
        ("fe80::1%eth0", False),
        ("::ffff:10.1.2.3", False),
        ("node1", False),  # a name says nothing
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert addresses.is_public(address) is public


def test_where_all_share_a_host_the_store_is_on_loopback_only() -> None:
    here = socket.gethostbyname(socket.gethostname())
    local = offer.open_store(SECRET, on_one_host=True)
    everywhere = offer.open_store(SECRET, on_one_host=False)
    assert offer.addresses_of(local, True, []) == (("127.0.0.1", local),)
    offered = offer.addresses_of(everywhere, False, [])
    assert offered[-1] == ("127.0.0.1", everywhere)
    for address in (*offered, (here, everywhere)):
        StoreClient(address, SECRET, within(5)).close()
    for host in {host for host, _ in offered} - {"127.0.0.1"}:
        with pytest.raises(ConnectionError):
            StoreClient((host, local), SECRET, within(5))


def test_a_channel_carries_the_secret_only_where_nobody_was_given_one() -> None:
    for given in (None, SECRET):
        said: list[bytes] = []
        heard = threading.Event()

        def channel(
            text: bytes | None,
            seconds: float,
            said: list[bytes] = said,
            heard: threading.Event = heard,
        ) -> bytes:
            if text is not None:
                said.append(text)
                heard.set()
            assert heard.wait(seconds)
            return said[0]

        ranks = [
            Identity(rank, 2, local_rank=rank, local_size=2, secret=given) for rank in range(2)
        ]
        places = [offer.through(channel, me, [], time.monotonic() + 10) for me in ranks]
        assert places[0] == places[1]
        assert (Offer.decode(said[0]).secret is None) == (given is not None)
        for secret in (SECRET, places[0].secret) if given else ():
            assert secret.hex().encode() not in said[0]


def test_a_secret_for_many_jobs_is_no_jobs_own() -> None:
    """Or ranks that come to another job's store by mistake would get in."""
    said: list[bytes] = []

    def channel(text: bytes | None, seconds: float) -> bytes:
        said.append(text or b"")
        return text or b""

    me = Identity(0, 2, local_rank=0, local_size=2, secret=SECRET)
    stores = [offer.through(channel, me, [], time.monotonic() + 10) for _ in range(2)]
    assert len({stores[0].secret, stores[1].secret, SECRET}) == 3
    assert (
        len({offer.of_this_job(SECRET, job) for job in ("SLURM_JOB_ID=1", "SLURM_JOB_ID=2")}) == 2
    )


@pytest.mark.parametrize(
    ("rank_0s", "mine", "text"),
    [
        (SECRET, None, "rank 0 was given a secret and this rank 1 was not: " + _HAS_TO_PASS),
        (None, SECRET, "this rank 1 was given a secret and rank 0 was not: " + _HAS_TO_PASS),
        (SECRET, bytes(32), "1 was given another secret than rank 0.*has to be the same for all"),
    ],
)
def test_ranks_that_were_not_given_the_same_secret_are_told_at_once(
    rank_0s: bytes | None, mine: bytes | None, text: str
) -> None:
    said: list[bytes] = []

    def channel(text: bytes | None, seconds: float) -> bytes:
        said.extend([] if text is None else [text])
        return said[0]

    offer.through(
        channel,
        Identity(0, 2, local_rank=0, local_size=2, secret=rank_0s),
        [],
        time.monotonic() + 10,
    )
    me = Identity(1, 2, launcher="Open MPI's mpirun", local_rank=1, local_size=2, secret=mine)
    with pytest.raises(ConnectionError, match=text) as error:
        offer.through(channel, me, [], time.monotonic() + within(1000))
    for secret in (SECRET, mine or SECRET):
        assert secret.hex() not in str(error.value)


def test_what_rank_0_has_told_is_taken_back_once_and_not_by_its_children() -> None:
    done: list[str] = []
    offer.when_all_are_here(lambda: done.append("first"))

    def fails() -> None:
        raise OSError("the server is gone")

    offer.when_all_are_here(fails)
    child = os.fork()
    if child == 0:
        offer.all_are_here()
        os._exit(len(done))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    offer.all_are_here()
    offer.all_are_here()
    assert done == ["first"]


# --- the socket of ranks on one host


@pytest.fixture
def somewhere() -> Iterator[str]:
    """A job of its own."""
    yield f"job {random.random()}"
    offer.all_are_here()


def test_ranks_of_one_user_hear_what_rank_0_says_until_all_have_come(somewhere: str) -> None:
    assert by_socket.say(somewhere, False, b"first", 10.0) == b"first"
    assert by_socket.say(somewhere, False, None, within(10)) == b"first"
    # init() is called again, after a start that has failed.
    by_socket.say(somewhere, False, b"second", 10.0)
    assert [by_socket.say(somewhere, False, None, within(10)) for _ in range(3)] == [b"second"] * 3
    offer.all_are_here()
    with pytest.raises(TimeoutError, match="no word from rank 0 within 0 s .* network namespace"):
        by_socket.say(somewhere, False, None, 0.0)


def test_a_place_that_this_users_other_job_has_is_told_with_its_process(somewhere: str) -> None:
    by_socket.say(somewhere, False, b"here", 10.0)
    by_socket._listeners.pop(somewhere)  # so that it is somebody else's
    with pytest.raises(ConnectionError, match=f"{os.getpid()} .* listens .* same MASTER_ADDR"):
        by_socket.say(somewhere, False, b"there", 0.0)


def test_a_child_of_rank_0_does_not_keep_its_place(somewhere: str) -> None:
    by_socket.say(somewhere, False, b"here", 10.0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    try:
        assert by_socket.say(somewhere, False, None, within(10)) == b"here"
        offer.all_are_here()
        assert by_socket._owner(by_socket.names(somewhere)[0]) is None
    finally:
        os.close(writer)
        os.waitpid(child, 0)


def test_only_the_same_user_is_trusted() -> None:
    assert by_socket.why_not(by_socket.Peer(7, 1000), 1000) == ""
    for other in (0, 65534):
        assert "process 7 there runs as user" in by_socket.why_not(by_socket.Peer(7, other), 1000)


@AS_ROOT
def test_another_user_who_knows_all_that_can_be_known_hears_nothing(
    somewhere: str, caplog: pytest.LogCaptureFixture
) -> None:
    by_socket.say(somewhere, False, b"the secret", 10.0)
    # Neither by the rules nor otherwise.
    said = as_nobody(lambda: by_socket.say(somewhere, False, None, 0.0))
    assert said.startswith("TimeoutError") and "another user listens in place of rank 0" in said
    said = as_nobody(
        lambda: by_socket._ask(by_socket.names(somewhere)[0], True, time.monotonic() + 10)
    )
    assert "rank 0 refuses this process" in said and "65534" in said and "the secret" not in said
    for _ in range(2):
        as_nobody(
            lambda: by_socket._ask(by_socket.names(somewhere)[0], True, time.monotonic() + 10)
        )
    assert by_socket.say(somewhere, False, None, within(10)) == b"the secret"
    refusals = [
        record for record in caplog.records if "a process of another user" in record.message
    ]
    assert len(refusals) == 1


@AS_ROOT
def test_another_user_who_listens_in_place_of_rank_0_is_not_believed(somewhere: str) -> None:
    taken, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        with socket.socket(socket.AF_UNIX) as squatter:
            squatter.bind(by_socket.names(somewhere)[0])
            squatter.listen()
            os.write(taken[1], b"x")
            os.read(go[0], 1)
        os._exit(0)
    os.read(taken[0], 1)
    try:
        with pytest.raises(TimeoutError, match="another user listens in place of rank 0: .*65534"):
            by_socket.say(somewhere, False, None, 0.0)
        by_socket.say(somewhere, False, b"the secret", 10.0)
        assert by_socket.say(somewhere, False, None, within(10)) == b"the secret"
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)
        for descriptor in (*taken, *go):
            os.close(descriptor)


@AS_ROOT
def test_ranks_that_were_given_a_secret_may_run_as_several_users(somewhere: str) -> None:
    """Containers of one host, say."""
    by_socket.say(somewhere, True, b"no secret in this", 10.0)
    said = as_nobody(lambda: by_socket.say(somewhere, True, None, within(10)))
    assert said == repr(b"no secret in this")
