"""Traces: files, dataframes in, Arrow streams out."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import NAMED, requests

import seekwise as sw


def test_a_dataframe_gives_the_figures_of_the_file_that_it_is_written_to(trace, file):
    of_frame = sw.simulate(trace, disk="sata7200", scheduler="bfq").to_dict()
    of_file = sw.simulate(sw.read_trace(file), disk="sata7200", scheduler="bfq").to_dict()
    assert of_frame["figures"] == of_file["figures"] and of_frame["streams"] == of_file["streams"]
    assert of_frame["trace"]["format"] == "memory" and of_file["trace"]["format"] == "parquet"


@pytest.mark.parametrize("library", ["polars", "duckdb", "pyarrow", "pandas"])
def test_dataframe_libraries_take_a_trace_and_give_it_back(library, file):
    pytest.importorskip(library)
    trace = sw.read_trace(file)
    if library == "polars":
        import polars

        frame = polars.DataFrame(trace)
        rows, back = frame.height, frame
    elif library == "duckdb":
        import duckdb

        relation = duckdb.sql("select * from trace where lba >= 0")
        rows, back = len(relation), relation.to_arrow_table()
    elif library == "pandas":
        import pandas

        frame = pandas.DataFrame(pa.table(trace).to_pandas())
        rows, back = len(frame), pa.Table.from_pandas(frame, preserve_index=False)
    else:
        back = pa.table(trace)
        rows = back.num_rows
    assert rows == len(trace) == 2000
    again = sw.Trace.from_arrow(back)
    assert pa.table(again).equals(pa.table(trace))


def test_the_stream_has_the_columns_of_the_parquet_file(trace, file):
    import pyarrow.parquet as parquet

    assert pa.table(trace).to_pydict() == parquet.read_table(file).to_pydict()
    assert list(trace.schema) == parquet.read_schema(file).names


def test_rows_in_any_order_are_sorted_by_time_and_those_of_one_time_stay_as_they_are(table):
    order = list(range(table.num_rows))[::-1]
    back = sw.Trace.from_arrow(table.take(order), **NAMED)
    assert pa.table(back).equals(pa.table(sw.Trace.from_arrow(table, **NAMED)))
    same = pa.table({"ts": [5, 5, 1], "off": [0, 512, 1024], "len": [512] * 3, "rw": ["r"] * 3})
    assert pa.table(sw.Trace.from_arrow(same, time="ts", offset="off", size="len", op="rw"))["lba"].to_pylist() == [2, 0, 1]


def typed(name: str):
    """Column ts converted to another type, with its unit argument."""
    micros = requests(50)["ts"]
    return {
        "int32": (pa.array([value // 1000 for value in micros], pa.int32()), "ms"),
        "uint64": (pa.array(micros, pa.uint64()), "us"),
        "float": (pa.array([value / 1e6 for value in micros]), "s"),
        "timestamp": (pa.array([datetime.datetime(2026, 1, 1) + datetime.timedelta(microseconds=value) for value in micros]), None),
        "duration": (pa.array(micros, pa.duration("us")), None),
    }[name]


@pytest.mark.parametrize("name", ["int32", "uint64", "float", "timestamp", "duration"])
def test_times_of_every_type_mean_the_same(name):
    column, unit = typed(name)
    columns = requests(50)
    plain = pa.table(sw.Trace.from_arrow(pa.table(columns), **NAMED))
    changed = sw.Trace.from_arrow(pa.table({**columns, "ts": column}), **{**NAMED, "unit": unit})
    assert pa.table(changed)["arrival_ns"].to_pylist() == plain["arrival_ns"].to_pylist()


def test_operations_may_be_words_categories_numbers_or_booleans():
    columns = requests(60)
    expected = pa.table(sw.Trace.from_arrow(pa.table(columns), **NAMED))["is_read"].to_pylist()
    words = {"R": "Read", "W": "write"}
    for column, more in [
        (pa.array([words[op] for op in columns["rw"]]), {}),
        (pa.array(columns["rw"]).dictionary_encode(), {}),
        (pa.array(columns["rw"], pa.string_view()), {}),
        (pa.array([0 if op == "R" else 1 for op in columns["rw"]]), {"read": 0, "write": 1}),
        (pa.array([op == "W" for op in columns["rw"]]), {"read": False, "write": True}),
    ]:
        trace = sw.Trace.from_arrow(pa.table({**columns, "rw": column}), **NAMED, **more)
        assert pa.table(trace)["is_read"].to_pylist() == expected, column.type


def test_bytes_are_rounded_outward_to_sectors_and_empty_requests_are_left_out():
    frame = pa.table({"t": [9, 10, 12], "o": [0, 100, 1024], "s": [0, 1000, 512], "k": ["r", "w", "trim"]})
    trace = sw.Trace.from_arrow(frame, time="t", unit="ms", offset="o", size="s", op="k")
    rows = pa.table(trace).to_pylist()
    assert [(row["arrival_ns"], row["lba"], row["sectors"], row["is_discard"]) for row in rows] == [(0, 0, 3, False), (2_000_000, 2, 1, True)]
    assert len(trace) == 2


def test_streams_may_be_names(table):
    named = table.set_column(4, "pid", pa.array([f"process {pid}" for pid in table["pid"].to_pylist()]))
    result = sw.simulate(sw.Trace.from_arrow(named, **NAMED))
    assert sorted(row["name"] for row in result.streams.to_pylist()) == ["process 4", "process 7"]


def test_response_times_are_kept_and_unknown_ones_are_null():
    frame = pa.table({"t": [0, 1], "o": [0, 512], "s": [512] * 2, "k": ["r"] * 2, "rt": [None, 0.5]})
    trace = sw.Trace.from_arrow(frame, time="t", unit="s", offset="o", size="s", op="k", response="rt", response_unit="ms")
    assert pa.table(trace)["response_ns"].to_pylist() == [None, 500_000]


@pytest.mark.parametrize(
    ("change", "key", "row", "words"),
    [
        ({"time": "tss"}, "time", None, "there is no column \"tss\"; the columns are ts, off, len, rw, pid; did you mean ts?"),
        ({"unit": "hours"}, "unit", None, '"hours" should be s, ms, us or ns'),
        ({"op": None}, "op", None, "time, offset, size and op are needed"),
        ({"off": [512, -512, 0]}, "offset", 1, "-512 should be a whole number from 0 up"),
        ({"off": [512, None, 0]}, "offset", 1, "null should be"),
        ({"off": pa.array([512, 2**63, 0], pa.uint64())}, "offset", 1, "9223372036854775808 should be a whole number from 0 up, and below 2^63"),
        ({"len": pa.array([512, 512, 2**64 - 1], pa.uint64())}, "size", 2, "18446744073709551615 should be"),
        ({"ts": pa.array([0, 2**63, 1], pa.uint64())}, "time", None, "beyond 2^63"),
        ({"ts": [0.0, float("nan"), 1.0]}, "time", 1, "NaN is no time"),
        ({"ts": [0.0, 1.0, float("inf")]}, "time", 2, "inf is no time"),
        ({"len": [512, 512, 2**62]}, "size", 2, "beyond any disk"),
        ({"rw": ["R", "W", "X"]}, "op", 2, '"X" should be read or write'),
        ({"rw": [0, 1, 2]}, "op", None, "as in read=0, write=1"),
        ({"ts": ["a", "b", "c"]}, "time", None, "a time is an integer, a float, a timestamp or a duration"),
        ({"ts": [0, None, 1]}, "time", None, "has 1 nulls"),
        ({"ts": [-(2**62), 0, 2**62]}, "time", None, "292 years"),
        ({"pid": [-1, 2, 3]}, "stream", None, "convert the column to strings"),
        ({"off": [1.5, 2.0, 3.0]}, "offset", None, "integers are wanted"),
        ({"ts": [], "off": [], "len": [], "rw": [], "pid": []}, "data", None, "no request"),
    ],
)
def test_what_is_no_request_is_refused_with_its_place(change, key, row, words):
    columns = {"ts": [0, 1, 2], "off": [0, 512, 1024], "len": [512] * 3, "rw": ["R", "W", "R"], "pid": [1, 2, 3]}
    named = {**NAMED, **{name: value for name, value in change.items() if name not in columns}}
    frame = pa.table({name: change.get(name, values) for name, values in columns.items()})
    with pytest.raises(sw.InvalidInputError) as raised:
        sw.Trace.from_arrow(frame, **named)
    assert words in str(raised.value)
    assert (raised.value.key, raised.value.row) == (key, row)
    assert isinstance(raised.value, ValueError) and isinstance(raised.value, sw.SeekwiseError)


@pytest.mark.parametrize("value", [-1, -1.0, float("inf"), 1e300])
def test_a_response_time_that_is_none_is_refused_with_its_row(value):
    frame = pa.table({"t": [0, 1], "o": [0, 512], "s": [512] * 2, "k": ["r"] * 2, "rt": [type(value)(1), value]})
    with pytest.raises(sw.InvalidInputError, match="is no span of time") as raised:
        sw.Trace.from_arrow(frame, time="t", unit="s", offset="o", size="s", op="k", response="rt")
    assert (raised.value.key, raised.value.row, raised.value.column) == ("response", 1, "rt")


def test_a_row_that_is_left_out_may_have_any_time():
    frame = pa.table({"t": [5, 2**62, 1], "o": [0] * 3, "s": [512, 0, 512], "k": ["r"] * 3})
    trace = sw.Trace.from_arrow(frame, time="t", unit="s", offset="o", size="s", op="k")
    assert pa.table(trace)["arrival_ns"].to_pylist() == [0, 4_000_000_000]


def test_slices_and_uneven_chunks_mean_what_a_copy_does():
    columns = {"t": range(10), "o": range(0, 5120, 512), "s": [512] * 10, "k": ["R", "W"] * 5, "rt": [None, 1] * 5, "sy": [True, None] * 5, "st": list("abcabcabca")}
    whole = pa.table({name: list(values) for name, values in columns.items()})
    part = whole.slice(3, 4)
    copy = pa.table(part.to_pydict(), schema=whole.schema)
    cut = lambda column, at: pa.chunked_array([column.slice(0, at), column.slice(at, 0), column.slice(at)])
    uneven = pa.table({name: cut(copy[name].combine_chunks(), number % 4) for number, name in enumerate(copy.column_names)})
    named = {"time": "t", "unit": "us", "offset": "o", "size": "s", "op": "k", "response": "rt", "sync": "sy", "stream": "st"}
    read = lambda frame: pa.table(sw.Trace.from_arrow(frame, **named)).to_pydict()
    assert read(part) == read(part.to_batches()[0]) == read(uneven) == read(copy)


def test_batches_of_any_length_and_requests_of_none_are_replayed_as_from_a_file(tmp_path: Path):
    columns = requests(2100)
    # A whole batch without a request, the ends of others, and all around the reader's batches of 256.
    columns["len"] = [0 if 300 <= row < 600 or row % 300 in (0, 299) or row % 256 < 2 else size for row, size in enumerate(columns["len"])]
    whole = pa.table(columns)
    uneven = pa.concat_tables([whole.slice(row, 300) for row in range(0, 2100, 300)])
    assert uneven["ts"].num_chunks == 7
    trace = sw.Trace.from_arrow(uneven, **NAMED)
    digest = lambda table: sw.simulate(sw.Trace.from_arrow(table, **NAMED), disk="sata7200", scheduler="clook").to_dict()["trace"]["sha256"]
    assert digest(uneven) == digest(whole) != digest(pa.table({**columns, "pid": [*columns["pid"][:-10], 5, *columns["pid"][-9:]]}))
    trace.write(tmp_path / "uneven.parquet")
    of_frame = sw.simulate(trace, disk="sata7200", scheduler="clook").to_dict()
    of_file = sw.simulate(sw.read_trace(tmp_path / "uneven.parquet"), disk="sata7200", scheduler="clook").to_dict()
    assert of_frame["figures"] == of_file["figures"] and of_frame["trace"]["requests"] == sum(size > 0 for size in columns["len"])


def test_times_with_zones_and_words_of_every_type_are_taken():
    columns = requests(50)
    expected = pa.table(sw.Trace.from_arrow(pa.table(columns), **NAMED)).to_pydict()
    zoned = pa.array([datetime.datetime(2026, 3, 29) + datetime.timedelta(microseconds=value) for value in columns["ts"]], pa.timestamp("us", tz="Europe/Berlin"))
    words = pa.array(columns["rw"], pa.large_string())
    for change in [{"ts": zoned}, {"rw": words}, {"rw": words.dictionary_encode()}]:
        frame = pa.table({**columns, **change})
        assert pa.table(sw.Trace.from_arrow(frame, **{**NAMED, "unit": None if "ts" in change else "us"})).to_pydict() == expected


@pytest.mark.parametrize("data", [None, {"ts": [1]}, [1, 2], 3])
def test_what_is_no_dataframe_is_refused(data):
    with pytest.raises(sw.InvalidInputError, match="has no Arrow C stream") as raised:
        sw.Trace.from_arrow(data, **NAMED)
    assert raised.value.key == "data"


def test_a_frame_of_pandas_is_taken_and_a_lazy_one_of_polars_is_not(table):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    expected = pa.table(sw.Trace.from_arrow(table, **NAMED)).to_pydict()
    frame = table.to_pandas()
    for one in [frame, frame.astype({"rw": "category"}), frame.iloc[::2].reset_index(drop=True)]:
        assert pa.table(sw.Trace.from_arrow(one, **NAMED))["lba"].to_pylist() == expected["lba"][:: len(expected["lba"]) // len(one)]
    with pytest.raises(sw.InvalidInputError, match="there is no request in it"):
        sw.Trace.from_arrow(pandas.DataFrame({name: [] for name in table.column_names}), **NAMED)
    with pytest.raises(sw.InvalidInputError, match="LazyFrame has no Arrow C stream"):
        sw.Trace.from_arrow(polars.DataFrame(table.to_pydict()).lazy(), **NAMED)


def test_damaged_files_are_refused_with_file_and_line(tmp_path: Path):
    path = tmp_path / "bad.csv"
    path.write_text("time_ms,lba,sectors,op\n0,0,8,r\n1,1,much,w\n")
    with pytest.raises(sw.InvalidInputError) as raised:
        len(sw.read_trace(path))
    assert (raised.value.file, raised.value.line) == (str(path), 3)
    assert len(sw.read_trace(path, skip_bad=True)) == 1
    with pytest.raises(FileNotFoundError) if False else pytest.raises(sw.FileError) as missing:
        sw.read_trace(tmp_path / "none.csv")
    assert missing.value.filename == str(tmp_path / "none.csv") and missing.value.errno == 2
    path.write_text("not a trace")
    with pytest.raises(sw.InvalidInputError, match="no trace format begins like this"):
        sw.read_trace(path)


def test_columns_of_a_file_without_a_heading_can_be_described(tmp_path: Path):
    path = tmp_path / "plain.csv"
    path.write_text("0;r;512;1024\n5;w;1024;512\n")
    columns = {"time": 1, "op": 2, "offset": 3, "size": 4, "time-unit": "ms", "offset-unit": "bytes", "size-unit": "bytes", "separator": "semicolon"}
    assert pa.table(sw.read_trace(path, columns=columns))["lba"].to_pylist() == [1, 2]
    with pytest.raises(sw.InvalidInputError, match="did you mean time"):
        sw.read_trace(path, columns={**columns, "tim": 1})
    with pytest.raises(ValueError, match="'time=1' should be a dict of roles and columns") as raised:
        sw.read_trace(path, columns="time=1")
    assert isinstance(raised.value, sw.InvalidInputError) and raised.value.key == "columns"


def test_a_trace_is_written_in_every_format_whole_or_not_at_all(trace, tmp_path: Path):
    for format in sw.trace_formats()["written"]:
        path = tmp_path / f"trace.{format['name']}"
        lost = trace.write(path, format=format["name"])
        assert path.stat().st_size > 0 and all(sentence for sentence in lost)
    with pytest.raises(sw.InvalidInputError, match="no format has this extension"):
        trace.write(tmp_path / "trace.xyz")
    with pytest.raises(sw.InvalidInputError, match="did you mean parquet"):
        trace.write(tmp_path / "t.parquet", format="parkuet")
    with pytest.raises(sw.SeekwiseError):
        trace.write(tmp_path / "no-folder" / "t.parquet")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".", "t."))]


def test_a_trace_is_characterised(trace):
    described = trace.describe(streams=1)
    assert described["requests"] == 2000 and len(described["streams"]) == 1
    assert 0.6 < described["read_share"] < 0.73


def test_several_files_are_merged_by_time(trace, tmp_path: Path):
    trace.write(tmp_path / "one.csv")
    trace.write(tmp_path / "two.csv")
    assert len(sw.read_trace([tmp_path / "one.csv", tmp_path / "two.csv"])) == 4000
