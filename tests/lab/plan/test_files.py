"""The contestants' and the studies' files: all valid, and what is wrong in one is said."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bolide.errors import ConfigError
from bolide.lab.folders import APPS
from bolide.lab.plan import contestant, study
from bolide.lab.record import schema
from bolide.lab.tools import TOOLS
from bolide.lab.trial import launch
from lab.tiny_race import workload

SEEDS = ["aiohttp-uvloop", "php", "pipelining", "python-common", "wsgi"]


def test_every_contestant_is_valid() -> None:
    found = contestant.own()
    assert len(found) >= 40
    assert {"bolide-native", "bolide-asgi", "bolide-wsgi", "ceiling"} <= found.keys()
    ceilings = [name for name, each in found.items() if each.entry.role == "ceiling"]
    assert ceilings == ["ceiling", "ceiling-tls", "ceiling-messages", "ceiling-messages-tls"]


def test_requirements_are_pinned() -> None:
    for each in contestant.own().values():
        for requirement in each.setup.requirements:
            assert "==" in requirement, each.name
        assert not each.setup.requirements or each.setup.distribution or each.entry.requirements


def test_applications_and_sources_are_there() -> None:
    for each in contestant.own().values():
        if module := each.entry.app.partition(":")[0]:
            assert (APPS / f"{module.replace('.', '/')}.py").is_file(), each.name
        for word in each.entry.command:
            if word.startswith("{apps}/"):
                assert (APPS / word.removeprefix("{apps}/")).is_file(), each.name
        for folder in (each.setup.go, each.setup.cargo, each.setup.npm):
            assert not folder or (APPS / folder).is_dir(), each.name


def test_connections_are_divided_by_processes(tmp_path: Path) -> None:
    known = contestant.own()
    place = launch.Place(tmp_path, ("127.0.0.1", 8000), (0,))
    for connections, each in ((100, "20"), (101, "21"), (1, "1")):
        found = launch.values(known["uwsgi-5xn"], workload(connections=connections), place, None)
        assert (found["connections"], found["connections_each"]) == (str(connections), each)
    assert found["second_port"] != found["port"]


def test_php_fpm_holds_no_child_between_requests() -> None:
    """A child that nginx keeps a connection to serves no other one."""
    for name, text in contestant.own()["nginx-php-fpm"].files.items():
        assert "fastcgi_keep_conn" not in text and "keepalive 16" not in text, name


def test_there_is_a_study_of_every_document_and_of_bolides_own_bars() -> None:
    assert study.names() == sorted([*SEEDS, "bench", "bench-servers", "tls-http2", "websocket"])


@pytest.mark.parametrize("name", SEEDS)
def test_every_study_is_valid(name: str) -> None:
    plan = study.load(name)
    known = contestant.own()
    assert contestant.chosen(plan.contestants, known)
    names = {each.name for each in plan.study.workloads}
    assert len(names) == len(plan.study.workloads)
    for each in plan.study.workloads:
        assert each.tool in TOOLS
        assert set(each.contestants) <= set(plan.contestants)
        assert (each.duration_s is None) != (each.requests_total is None)
    assert plan.study.published
    for figure in plan.study.published:
        assert figure.contestant in plan.contestants
        assert figure.workload in names
    quick = study.shortened(plan.study, lambda tool: tool == "bolide")
    assert quick.workloads and {each.tool for each in quick.workloads} == {"bolide"}
    assert quick.rounds == 1
    for each in quick.workloads:
        assert (each.duration_s or 1) == (3 if each.connections == 10_000 else 1)


def test_a_quick_race_has_the_documents_tool_where_it_is_installed() -> None:
    quick = study.shortened(study.load("pipelining").study, lambda tool: True)
    assert [each.name for each in quick.workloads] == ["pipelined-wrk"]


@pytest.mark.parametrize("cores", [1, 3])
def test_a_workload_has_as_many_threads_as_the_load_has_processors(cores: int) -> None:
    workloads = study.load("aiohttp-uvloop", cores).study.workloads
    threads = {each.name: each.threads for each in workloads if not each.maximum}
    assert threads == {
        "t100-wrk": 100,
        "t100-bolide": 100,
        "cores-wrk": cores,
        "cores-bolide": cores,
    }


def test_other_tools_make_the_same_loads() -> None:
    plan = study.load("pipelining").study
    by_others, refused = study.by_tools(plan, ["hey", "wrk", "hey"])
    assert [each.name for each in by_others.workloads] == [
        "pipelined-wrk",
        "single-hey",
        "single-wrk",
    ]
    assert refused == [
        "pipelined-hey is left out: hey cannot do pipelining",
        "the open loop is left out: it needs bolide",
    ]
    assert by_others.published == plan.published
    single = by_others.workloads[1]
    assert (single.tool, single.connections, single.pipeline_depth) == ("hey", 100, 1)
    by_others, _ = study.by_tools(plan, ["bolide"])
    assert by_others.published == ()  # published for wrk
    assert study.by_tools(plan, ["wrk", "bolide"])[0].workloads == plan.workloads


def test_a_tools_own_workload_stays_what_it_is() -> None:
    plan = study.load("pipelining").study
    own = tuple(
        msgspec.structs.replace(each, timeout_s=9.0) if each.name == "single-bolide" else each
        for each in plan.workloads
    )
    found, _ = study.by_tools(schema.with_workloads(plan, own), ["bolide"])
    assert [each.timeout_s for each in found.workloads if not each.maximum] == [5.0, 9.0]


def test_a_quick_race_by_chosen_tools_has_each_of_them() -> None:
    plan, _ = study.by_tools(study.load("pipelining").study, ["wrk", "bolide"])
    quick = study.shortened(plan, None)
    assert [each.name for each in quick.workloads] == ["pipelined-wrk", "pipelined-bolide"]


def test_published_figures_stay_with_their_workload() -> None:
    """Another tool, or another number of its threads, does not measure the same."""
    plan = study.load("aiohttp-uvloop").study
    quick = study.shortened(plan, lambda tool: True)
    assert [each.name for each in quick.workloads] == ["cores-wrk"]
    assert quick.published == ()
    own = [each for each in plan.workloads if each.name != "cores-wrk"]
    assert schema.with_workloads(plan, own).published == plan.published


def test_a_figure_of_another_load_goes() -> None:
    plan = study.load("pipelining").study
    single = [each for each in plan.workloads if each.name.startswith("single-")]
    assert schema.with_workloads(plan, single).published == ()


def test_what_was_not_asked_for_is_not_refused() -> None:
    plan = study.load("pipelining").study
    _, refused = study.by_tools(plan, ["hey"], ["single-*"])
    assert refused == []
    with pytest.raises(ConfigError, match="pipelined-hey is left out"):
        study.by_tools(plan, ["hey"], ["pipelined-hey"])


def test_tools_that_can_do_nothing_of_it_are_named() -> None:
    plan = study.load("pipelining").study
    pipelined = schema.with_workloads(plan, plan.workloads[:1])
    with pytest.raises(
        ConfigError,
        match="no workload can be measured; pipelined-ab is left out: ab cannot do pipe",
    ):
        study.by_tools(pipelined, ["ab"])
    with pytest.raises(ConfigError, match="no tool is called 'siege'; there are bolide, ab"):
        study.by_tools(plan, ["wrk", "siege"])


def test_levels_make_a_workload_each() -> None:
    names = [each.name for each in study.load("wsgi").study.workloads]
    assert len([name for name in names if name.startswith("equal-") and "wrk" in name]) == 19
    assert "equal-c10000-wrk" in names


CONTESTANT = """
title = "T"
language = "Python"
[[contestant]]
name = "x"
title = "X"
interface = "own"
command = ["{python}"]
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "x.toml: Invalid value"),
        (CONTESTANT.replace('title = "X"', ""), "missing required field `title`"),
        (CONTESTANT + 'nonsense = "1"', "unknown field `nonsense`"),
        (CONTESTANT.replace("{python}", "{pyhton}"), "unknown placeholder {pyhton}"),
        (CONTESTANT + CONTESTANT.partition("[[")[2].join(["[[", ""]), "'x' exists already"),
    ],
)
def test_a_wrong_contestant_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        contestant.read_all([tmp_path])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title", "Expected '=' after a key in a key/value pair"),
        ('title = "T"\ndocument = ""\ncontestants = ["a"]', "missing required field `workload`"),
    ],
)
def test_a_wrong_study_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    assert message in wrong(text, tmp_path)


def wrong(text: str, tmp_path: Path) -> str:
    """Return what is said of a study."""
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        study.load(str(path))
    said = str(caught.value)
    assert said.startswith("x.toml: ") and "\n" not in said
    return said.removeprefix("x.toml: ")


STUDY = """
title = "T"
document = "none"
contestants = ["bolide-*", "bjoern"]
[[workload]]
name = "a"
tools = ["bolide"]
connections = [4, 8]
"""


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("rounds = 0", "Expected `int` >= 1 - at `$.rounds`"),
        ("rounds = 1001", "Expected `int` <= 1000 - at `$.rounds`"),
        ("rounds = 1.5", "Expected `int`, got `float` - at `$.rounds`"),
        ("duration_s = 0", "Expected `float` >= 0.001 - at `$.duration_s`"),
        ("duration_s = nan", "Expected `float` >= 0.001 - at `$.duration_s`"),
        ("duration_s = inf", "Expected `float` <= 86400.0 - at `$.duration_s`"),
        ("contestants = []", "Expected `array` of length >= 1 - at `$.contestants`"),
        ("workload = []", "Expected `array` of length >= 1 - at `$.workload`"),
        (
            'content = "\\u0000"',
            "the content has a zero byte, which an environment variable cannot have",
        ),
        ("content_repeated = 0", "Expected `int` >= 1 - at `$.content_repeated`"),
        ("content_repeated = 7693", "the content has 100,009 bytes, 100,000 are allowed"),
        ('nonsense = "1"', "Object contains unknown field `nonsense`"),
    ],
)
def test_a_wrong_field_of_a_study_is_named(field: str, message: str, tmp_path: Path) -> None:
    name = field.split()[0]
    kept = [line for line in STUDY.splitlines() if not line.startswith(name)]
    text = "\n".join(kept[:-4] if name == "workload" else kept)
    assert wrong(f"{field}\n{text}", tmp_path) == message


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (
            'name = "a b"',
            "Expected `str` matching regex '^[\\\\w.+{}-]+\\\\Z' - at `$.workload[0].name`",
        ),
        (
            f'name = "{"a" * 81}"',
            "Expected `str` of length <= 80 - at `$.workload[0].name`",
        ),
        ("tools = []", "Expected `array` of length >= 1 - at `$.workload[0].tools`"),
        (
            'tools = ["nope"]',
            "workload 'a-nope': no tool is called 'nope'; there are bolide, ab, wrk, webbench,"
            " oha, h2load, hey, bombardier, hold",
        ),
        (
            'tools = ["webbench"]',
            "workload 'a-webbench': webbench cannot do persistent connections",
        ),
        ("connections = 0", "Expected `int` >= 1 - at `$.workload[0].connections`"),
        ("connections = []", "Expected `array` of length >= 1 - at `$.workload[0].connections`"),
        ("connections = [1, -1]", "Expected `int` >= 1 - at `$.workload[0].connections[1]`"),
        ("connections = [4, 5]", "two workloads have the same name"),
        ("pipeline_depth = 0", "Expected `int` >= 1 - at `$.workload[0].pipeline_depth`"),
        ("is_persistent = 1", "Expected `bool`, got `int` - at `$.workload[0].is_persistent`"),
        ('http_version = "3"', "Invalid enum value '3' - at `$.workload[0].http_version`"),
        (
            'target = "x"',
            "Expected `str` matching regex '^/[!-~]*\\\\Z' - at `$.workload[0].target`",
        ),
        (
            'target = "/\\r\\n"',
            "Expected `str` matching regex '^/[!-~]*\\\\Z' - at `$.workload[0].target`",
        ),
        ("threads = 0", "Expected `int` >= 1 - at `$.workload[0].threads`"),
        ('threads = "all"', "Invalid enum value 'all' - at `$.workload[0].threads`"),
        ("requests_total = 0", "Expected `int` >= 1 - at `$.workload[0].requests_total`"),
        ("duration_s = 1e-300", "Expected `float` >= 0.001 - at `$.workload[0].duration_s`"),
        ("rate_per_s = 0.5", "Expected `float` >= 1.0 - at `$.workload[0].rate_per_s`"),
        ("rate_per_s = inf", "Expected `float` <= 1000000000.0 - at `$.workload[0].rate_per_s`"),
        ("timeout_s = 1e-9", "Expected `float` >= 0.001 - at `$.workload[0].timeout_s`"),
        ('contestants = ["uvicorn"]', "workload 'a': 'uvicorn' is not a contestant of the study"),
        (
            'companion = "../../evil.py"',
            "workload 'a-bolide': companion '../../evil.py' is not the name of a file in the"
            " laboratory's applications",
        ),
        (
            'companion = "nope.py"',
            "workload 'a-bolide': companion 'nope.py' is not the name of a file in the"
            " laboratory's applications",
        ),
        *(
            (
                f'app = "{app}"',
                f"workload 'a-bolide': app '{app}' is not module:attribute of the laboratory's"
                " applications",
            )
            for app in ("os:system", "../evil:app", "on_asgi:os.system", "on_asgi", "on_asgi:_x")
        ),
        (
            'sysctls = { "net.ipv4/../../kernel.x" = "1" }',
            "Expected `str` matching regex '^net\\\\.[a-z0-9_.-]+\\\\Z' - at"
            " `key` in `$.workload[0].sysctls`",
        ),
        (
            "requests_total = 9223372036854775807",
            "Expected `int` <= 1000000000 - at `$.workload[0].requests_total`",
        ),
        ("threads = 1000000", "Expected `int` <= 1024 - at `$.workload[0].threads`"),
        *(
            (
                f'fields = {{ "{name}" = "{value}" }}',
                f"workload 'a': fields has {said}, which is no field line of ASCII letters",
            )
            for name, value, said in (
                ("X", "a\\r\\nB: c", r"'X: a\r\nB: c'"),
                ("X Y:", "a", "'X Y:: a'"),
                ("", "a", "': a'"),
                ("X", "\\u1234", "'X: \u1234'"),
            )
        ),
        *(
            (
                f'fields = {{ {name} = "5" }}',
                f"workload 'a': fields has '{name}', which the load generator writes itself",
            )
            for name in ("Content-Length", "transfer-encoding", "Connection")
        ),
        ("quick = [5]", "workload 'a': quick has 5, which connections does not have"),
    ],
)
def test_a_wrong_field_of_a_workload_is_named(field: str, message: str, tmp_path: Path) -> None:
    head, _, table = STUDY.partition("[[workload]]\n")
    name = field.split()[0]
    kept = [line for line in table.splitlines() if not line.startswith(name)]
    text = f"{head}[[workload]]\n" + "\n".join([*kept, field])
    if "one name" not in message:
        text = text.replace("[4, 8]", "4")
    assert wrong(text, tmp_path) == message


CLAIM = '[[claim]]\ntext = "x"\nworkloads = ["a-bolide"]\ncontestants = ["bjoern"]\n'
PUBLISHED = '[[published]]\ncontestant = "bjoern"\nworkload = "a-bolide"\n'
BOUND = "at_least = 1.0\n"
LOOP = '[open_loop]\nof = "a-bolide"\n'


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (CLAIM + "at_least = nan", "Expected `float` >= 0.0 - at `$.claim[0].at_least`"),
        (CLAIM + "at_most = -1.0", "Expected `float` >= 0.0 - at `$.claim[0].at_most`"),
        (CLAIM, "the claim 'x' needs at_least or at_most"),
        (
            CLAIM + BOUND + 'than = ["nope"]',
            "the claim 'x' refers to no contestant of the study: 'nope'",
        ),
        (
            CLAIM.replace("bjoern", "nope") + BOUND,
            "the claim 'x' refers to no contestant of the study: 'nope'",
        ),
        (
            CLAIM.replace("a-bolide", "b-bolide") + BOUND,
            "the claim 'x' refers to no workload: 'b-bolide'",
        ),
        *(
            (
                f"{PUBLISHED}{name} = {value}",
                f"Expected `float` > 0.0 - at `$.published[0].{name}`",
            )
            for name in ("requests_per_s", "latency_ms")
            for value in ("nan", "-5.0", "0.0")
        ),
        (
            PUBLISHED + "requests_per_s = inf",
            "Expected `float` <= 1000000000000000.0 - at `$.published[0].requests_per_s`",
        ),
        (
            PUBLISHED.replace("bjoern", "nope"),
            "a published figure refers to no contestant of the study: 'nope'",
        ),
        (
            PUBLISHED.replace("a-bolide", "b-bolide"),
            "a published figure refers to no workload: 'b-bolide'",
        ),
        (
            LOOP + 'find = "p99 <> banana"',
            "open_loop: find has 'p99 <> banana'; give one like 'p99 < 10ms'",
        ),
        (LOOP + "duration_s = 1e-300", "Expected `float` >= 0.001 - at `$.open_loop.duration_s`"),
        ("[turns]\nseconds = 1e-6", "Expected `float` >= 0.05 - at `$.turns.seconds`"),
    ],
)
def test_a_wrong_table_of_a_study_is_named(table: str, message: str, tmp_path: Path) -> None:
    assert wrong(STUDY.replace("[4, 8]", "4") + table, tmp_path) == message


@pytest.mark.parametrize(
    "text", ["p99 < 10ms", "p99_9<=1.5 s", "errors < 0.1%", "max < 500us", "failed == 0"]
)
def test_a_condition_of_a_search_is_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(STUDY.replace("[4, 8]", "4") + f'{LOOP}find = "{text}"\n')
    assert study.load(str(path)).study.workloads[-1].finds == text


def test_a_study_that_is_nested_too_deeply_is_named(tmp_path: Path) -> None:
    said = wrong(f"a = {'[' * 9000}{']' * 9000}", tmp_path)
    assert said == "its arrays or tables are nested too deeply"


def test_a_workload_may_be_for_some_of_the_studys_contestants(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    text = STUDY.replace('name = "a"', 'name = "c{connections}"')
    path.write_text(text + 'contestants = ["bolide-asgi"]\n')
    found = study.load(str(path)).study.workloads
    assert [(each.name, each.contestants) for each in found] == [
        ("c4-bolide", ("bolide-asgi",)),
        ("c8-bolide", ("bolide-asgi",)),
    ]


def test_a_rate_is_a_whole_number(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(STUDY.replace("[4, 8]", "4") + "rate_per_s = 99.6\n")
    [found] = study.load(str(path)).study.workloads
    assert found.rate_per_s == 100.0


def test_a_studys_name_has_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "my own; study.toml"
    path.write_text(STUDY.replace("[4, 8]", "4"))
    assert study.load(str(path)).study.name == "my-own-study"
    assert study.of_application("../site/app.py:app", "/").name == "..-site-app.py"


def test_a_study_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "x.toml").write_text(STUDY)
    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(ConfigError, match=r"cannot read .*x\.toml: Permission denied"):
        study.load(str(tmp_path / "x.toml"))


def test_unknown_names_are_reported() -> None:
    with pytest.raises(ConfigError, match="no study 'nonsense'; there are aiohttp-uvloop"):
        study.load("nonsense")
    with pytest.raises(ConfigError, match="no contestant 'bolide-nativ'; there are"):
        contestant.chosen(["bolide-nativ"], contestant.own())
    assert [each.name for each in contestant.chosen(["bolide-w*"], contestant.own())] == [
        "bolide-wsgi"
    ]


def test_the_documents_example_is_a_study(tmp_path: Path) -> None:
    document = Path(__file__).parents[3] / "docs" / "race.md"
    example = document.read_text().partition("```toml\n")[2].partition("```")[0]
    optional = ("requests_total", "rate_per_s", "contestants", "does_not_hold")
    assert "[open_loop]" in example
    for line in optional:
        example = example.replace(f"# {line}", line)
    assert "cannot do a rate" in wrong(example, tmp_path)
    for line in optional[:2]:
        example = example.replace(line, f"# {line}")
    (tmp_path / "mine.toml").write_text(example)
    plan = study.load(str(tmp_path / "mine.toml"))
    assert [each.name for each in plan.study.workloads] == [
        "kept-c100-wrk",
        "kept-c100-bolide",
        "kept-c1000-wrk",
        "kept-c1000-bolide",
        *(f"open-own{share}-bolide" for share in (25, 50, 75, 90)),
        *(f"open-common{share}-bolide" for share in (25, 50, 75, 90)),
        "find-bolide",
    ]
    assert plan.study.workloads[0].contestants == ("uvicorn",)
    assert plan.study.published[0].does_not_hold == "why it is not a valid result"
