import pytest

from urbex.core.errors import UserError
from urbex.data import osm

# A 0.001 degree square at 60 N: about 56 by 111 m.
SQUARE = """
  <node id="1" lon="24.940" lat="60.170"/> <node id="2" lon="24.941" lat="60.170"/>
  <node id="3" lon="24.941" lat="60.171"/> <node id="4" lon="24.940" lat="60.171"/>
  <node id="5" lon="24.9403" lat="60.1703"/> <node id="6" lon="24.9407" lat="60.1703"/>
  <node id="7" lon="24.9407" lat="60.1707"/> <node id="8" lon="24.9403" lat="60.1707"/>
"""
OUTER = '<nd ref="1"/><nd ref="2"/><nd ref="3"/><nd ref="4"/><nd ref="1"/>'
INNER = '<nd ref="5"/><nd ref="6"/><nd ref="7"/><nd ref="8"/><nd ref="5"/>'


def written(folder, body):
  path = folder / "small.osm"
  path.write_text(f'<?xml version="1.0"?><osm version="0.6">{body}</osm>')
  return str(path)


def test_a_way_becomes_a_building_in_metres(tmp_path):
  path = written(
    tmp_path,
    f'{SQUARE}<way id="9">{OUTER}<tag k="building" v="yes"/>'
    '<tag k="building:levels" v="5"/><tag k="name" v="  Old   Mill "/></way>',
  )
  extract = osm.read_extract(path)
  (building,) = extract.buildings
  assert extract.crs == "EPSG:32635"
  assert building.name == "Old Mill"
  assert building.height_m == 3.2 * 5 + 1
  assert building.polygon.area == pytest.approx(55.6 * 111.4, rel=0.01)


def test_a_multipolygon_keeps_its_courtyard(tmp_path):
  path = written(
    tmp_path,
    f'{SQUARE}<way id="9">{OUTER}</way><way id="10">{INNER}</way>'
    '<relation id="11"><member type="way" ref="9" role="outer"/>'
    '<member type="way" ref="10" role="inner"/>'
    '<tag k="type" v="multipolygon"/><tag k="building" v="yes"/></relation>',
  )
  (building,) = osm.read_extract(path).buildings
  assert len(building.polygon.interiors) == 1
  assert building.polygon.area == pytest.approx(55.6 * 111.4 * 0.84, rel=0.01)


def test_a_clipped_way_is_cut_to_the_nodes_that_the_file_has(tmp_path):
  path = written(
    tmp_path,
    f'{SQUARE}<way id="9"><nd ref="1"/><nd ref="2"/><nd ref="404"/>'
    '<tag k="highway" v="residential"/><tag k="name" v="High Street"/></way>'
    '<way id="10"><nd ref="404"/><tag k="highway" v="service"/></way>',
  )
  (road,) = osm.read_extract(path).roads
  assert road.line.length == pytest.approx(55.6, rel=0.01)
  assert road.width_m == osm.ROAD_WIDTHS_M["residential"]


@pytest.mark.parametrize(
  ("text", "words"),
  [
    ("<osm><node id='1'", "not well-formed"),
    ("<html></html>", "<html>"),
    ("<osm><node id='1' lon='x' lat='0'/></osm>", "attribute"),
    ("<osm><node lon='1' lat='0'/></osm>", "attribute"),
    ("<osm></osm>", "no building"),
    ("", "not well-formed"),
  ],
)
def test_bad_xml_is_one_line_that_names_the_file(tmp_path, text, words):
  path = tmp_path / "bad.osm"
  path.write_text(text)
  with pytest.raises(UserError, match=words) as error:
    osm.read_extract(str(path))
  assert str(path) in str(error.value)
  assert "\n" not in str(error.value)
