"""Reads the tagged features of an OpenStreetMap .osm file (XML), with the stdlib.

pyrosm reads only protobuf. Extracts from the map's own export button are XML, and
small, so a plain parser serves.
"""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import shapely
from shapely.geometry import LineString, Point, Polygon
from shapely.geometry.base import BaseGeometry

from urbex.core.errors import UserError
from urbex.data.osm_pbf import WANTED_KEYS

# A closed way with one of these tags is an outline, not a loop of road.
_AREA_KEYS = ("building", "landuse", "natural", "leisure", "amenity", "place", "shop")


def read_xml(path: Path) -> Iterator[tuple[str, dict[str, str], BaseGeometry]]:
  """Yields (id such as "way/12", tags, geometry in longitude and latitude).

  Ways and relations whose nodes the file lacks, as at the edge of a clip, are cut
  to the nodes that it has, or left out where too few remain.

  Raises:
    UserError: the file is not well-formed OSM XML.
  """
  try:
    root = ElementTree.parse(path).getroot()
    if root.tag != "osm":
      raise UserError(f"{path}: found <{root.tag}>, want an <osm> document")
    nodes = {
      node.attrib["id"]: (float(node.attrib["lon"]), float(node.attrib["lat"]))
      for node in root.iter("node")
    }
    ways = {
      way.attrib["id"]: [
        nodes[nd.attrib["ref"]] for nd in way.iter("nd") if nd.attrib["ref"] in nodes
      ]
      for way in root.iter("way")
    }
    for element in root:
      tags = {tag.attrib["k"]: tag.attrib["v"] for tag in element.iter("tag")}
      if not any(key in tags for key in WANTED_KEYS):
        continue
      geometry = _geometry(element, tags, nodes, ways)
      if geometry is not None and not geometry.is_empty:
        yield f"{element.tag}/{element.attrib['id']}", tags, geometry
  except ElementTree.ParseError as error:
    raise UserError(
      f"{path}: not well-formed XML ({error}); export the extract again"
    ) from error
  except (KeyError, ValueError) as error:
    raise UserError(
      f"{path}: an element lacks or garbles an OSM attribute ({error})"
    ) from error


def _geometry(
  element: ElementTree.Element,
  tags: dict[str, str],
  nodes: dict[str, tuple[float, float]],
  ways: dict[str, list[tuple[float, float]]],
) -> BaseGeometry | None:
  if element.tag == "node":
    return Point(nodes[element.attrib["id"]])
  if element.tag == "way":
    return _way(ways[element.attrib["id"]], tags)
  if element.tag == "relation" and tags.get("type") == "multipolygon":
    return _multipolygon(element, ways)
  return None


def _way(
  lonlat: list[tuple[float, float]], tags: dict[str, str]
) -> BaseGeometry | None:
  closed = len(lonlat) >= 4 and lonlat[0] == lonlat[-1]
  area = tags.get("area", "no") != "no" or any(key in tags for key in _AREA_KEYS)
  if closed and area and tags.get("natural") != "coastline":
    return Polygon(lonlat)
  return LineString(lonlat) if len(lonlat) >= 2 else None


def _multipolygon(
  element: ElementTree.Element, ways: dict[str, list[tuple[float, float]]]
) -> BaseGeometry:
  rings: dict[str, list[LineString]] = {"outer": [], "inner": []}
  for member in element.iter("member"):
    role = "inner" if member.get("role") == "inner" else "outer"
    lonlat = ways.get(member.get("ref", ""), [])
    if member.get("type") == "way" and len(lonlat) >= 2:
      rings[role].append(LineString(lonlat))
  outer, inner = (
    shapely.union_all(shapely.get_parts(shapely.polygonize(rings[role])))
    for role in ("outer", "inner")
  )
  return outer.difference(inner)
