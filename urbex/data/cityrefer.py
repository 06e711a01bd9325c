"""Loads a CityRefer download: everything but the clouds' points.

`load` reads what is there; `join` puts it together once the clouds are measured.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from urbex.core.errors import UserError
from urbex.core.types import BoxXYZ
from urbex.data import (
  citynav,
  cityrefer_annotations,
  cityrefer_boxes,
  cityrefer_files,
  cityrefer_frame,
  cityrefer_lists,
  cityrefer_scene,
)
from urbex.data.cityrefer_annotations import Description, QualitySettings
from urbex.data.cityrefer_boxes import RawBox
from urbex.data.cityrefer_files import RawFiles
from urbex.data.cityrefer_frame import Bounds, Frame
from urbex.data.cityrefer_lists import ObjectKey
from urbex.data.cityrefer_scene import SceneTables
from urbex.data.cityrefer_segments import Segment
from urbex.data.ledger import Ledger

ANNOTATIONS = ("cityrefer", "citynav")
# What segs files call the classes of targets, beside CityRefer's own names.
_SEGMENT_CLASSES = {"Buildings": "Building", "Cars": "Car"}


@dataclasses.dataclass(frozen=True)
class Download:
  """What the files say.

  Attributes:
    files: where they are.
    descriptions: usable ones, in the files' order.
    boxes: scene -> object id -> box, in the files' frame.
    outlines: scene -> object id -> corners in the cloud's frame (CityNav's).
    lists: train, val, test -> scenes, as far as they are there.
    wrong: objects not to be used.
    read: number of descriptions before any was dropped.
  """

  files: RawFiles
  descriptions: tuple[Description, ...]
  boxes: Mapping[str, Mapping[int, RawBox]]
  outlines: Mapping[str, Mapping[int, tuple[tuple[float, float], ...]]]
  lists: Mapping[str, Sequence[str]]
  wrong: Mapping[ObjectKey, str]
  read: int

  def scenes(self) -> list[str]:
    """Returns every scene that is described, in counting order."""
    return sorted({d.scene_id for d in self.descriptions}, key=_order)


@dataclasses.dataclass(frozen=True)
class MeasuredCloud:
  """What one pass over a scene's points tells.

  Attributes:
    bounds: low_3 and high_3, float64 metres.
    segments: the entries of its segs file, () where there is none that fits.
    objects: object id -> bounds of its points, for objects that have some.
  """

  bounds: Bounds
  segments: tuple[Segment, ...] = ()
  objects: Mapping[int, BoxXYZ] = dataclasses.field(default_factory=dict)


def _order(scene_id: str) -> tuple[str, int]:
  return cityrefer_files.scene_order(scene_id)


def load(
  sensaturban: str,
  cityrefer: str,
  citynav_folder: str,
  annotations: str,
  quality: QualitySettings,
  ledger: Ledger,
) -> Download:
  """Reads the descriptions, boxes and lists that are there.

  Args:
    sensaturban, cityrefer: folders.
    citynav_folder: of CityNav's annotations, "" for none; its outlines are used.
    annotations: whose descriptions and boxes count, one of `ANNOTATIONS`.
    quality: which descriptions are too poor.
    ledger: takes what is left out.

  Raises:
    UserError: a folder or all of a kind of file is missing, a file of descriptions or
      a list is damaged, or `annotations` is unknown.
  """
  if annotations not in ANNOTATIONS:
    raise UserError(
      f"config.annotations: want one of {', '.join(ANNOTATIONS)}, found {annotations!r}"
    )
  files = cityrefer_files.find(
    sensaturban, cityrefer, ledger, described=annotations == "cityrefer"
  )
  lists = cityrefer_lists.read_scene_lists(files.lists)
  wrong = cityrefer_lists.read_wrong_segments(files.wrong)
  other = citynav.read(citynav_folder, ledger) if citynav_folder else None
  if annotations == "citynav":
    if other is None:
      raise UserError(
        "config.annotations=citynav: config.citynav is missing; name CityNav's folder"
      )
    descriptions, boxes = list(other.descriptions), dict(other.boxes)
  else:
    descriptions = [
      d
      for split in ("train", "val", "test")
      if split in files.annotations
      for d in cityrefer_annotations.read(files.annotations[split], ledger)
    ]
    boxes = _boxes(files, ledger)
  class_of: dict[str, dict[int, str]] = {}
  for d in descriptions:
    class_of.setdefault(d.scene_id, {}).setdefault(d.object_id, d.category)
  usable = cityrefer_annotations.keep_usable(descriptions, quality, ledger)
  if not usable:
    raise UserError(
      f"{cityrefer or citynav_folder}: none of its {len(descriptions)} descriptions "
      "can be used; "
      "--config.quality sets what is too poor"
    )
  return Download(
    files=files,
    descriptions=tuple(usable),
    boxes={
      scene: cityrefer_boxes.with_classes(of, class_of.get(scene, {}))
      for scene, of in boxes.items()
    },
    outlines=_outlines(other),
    lists=lists,
    wrong=wrong,
    read=len(descriptions),
  )


def _boxes(files: RawFiles, ledger: Ledger) -> dict[str, dict[int, RawBox]]:
  """Reads every box file; a damaged one costs its scene its boxes alone."""
  found = {}
  for scene in sorted(files.boxes, key=_order):
    try:
      found[scene] = cityrefer_boxes.read(files.boxes[scene], scene, ledger)
    except UserError as error:
      ledger.note("unreadable", files.boxes[scene].name, str(error))
  return found


def _outlines(other: citynav.CityNav | None) -> dict[str, dict[int, tuple]]:
  boxes = other.boxes if other else {}
  return {
    scene: {id: box.outline for id, box in of.items() if len(box.outline) >= 3}
    for scene, of in boxes.items()
  }


def note_absent(download: Download, ledger: Ledger) -> None:
  """Lists what a whole download would have and this one lacks."""
  files, described = download.files, set(download.scenes())
  for split in ("train", "val", "test"):
    if split not in files.annotations:
      why = "; its authors keep it" if split == "test" else ""
      ledger.note("absent", f"CityRefer_{split}.json", f"no such file{why}")
  named = {s for scenes in download.lists.values() for s in scenes} | described
  for scene in sorted(named, key=_order):
    lacking = [
      what
      for what, of in (
        ("cloud", files.clouds),
        ("boxes", download.boxes),
        ("segments", files.segments),
      )
      if scene not in of
    ]
    if scene not in described:
      lacking.insert(0, "descriptions")
    if lacking:
      ledger.note("absent", scene, f"no {', '.join(lacking)}")
  for scene in sorted(described - set(files.clouds), key=_order):
    ledger.note("no-cloud", scene, f"is described, and there is no {scene}.ply")
  for scene in sorted(set(files.clouds) - described, key=_order):
    ledger.note("no-annotations", scene, "has a cloud and no description")
  if not files.lists:
    ledger.note("absent", "sensaturban_train.txt", "no lists of scenes")
  if not files.wrong:
    ledger.note("absent", "sensaturban_wrong_segments*.csv", "no lists of segments")


def find_frame(
  download: Download, clouds: Mapping[str, MeasuredCloud], wanted: str
) -> Frame:
  """Finds the boxes' frame; `wanted` ("raw", "shifted") overrides what is found.

  Raises:
    UserError: neither frame fits and none is wanted, or `wanted` is no frame.
  """
  if wanted not in ("auto", *cityrefer_frame.FRAMES):
    raise UserError(f"config.frame: want auto, raw or shifted, found {wanted!r}")
  if wanted != "auto":
    return Frame(wanted, {}, {}, certain=True)
  usable = {
    scene: {id: b for id, b in of.items() if (scene, id) not in download.wrong}
    for scene, of in download.boxes.items()
  }
  return cityrefer_frame.detect(
    {scene: cityrefer_boxes.bounds_K6(of) for scene, of in usable.items()},
    {scene: cloud.bounds for scene, cloud in clouds.items()},
  )


def join(
  download: Download,
  clouds: Mapping[str, MeasuredCloud],
  frame: Frame,
  ledger: Ledger,
) -> dict[str, SceneTables]:
  """Returns the tables of every scene with a cloud; all queries are still "train"."""
  by_scene: dict[str, list[Description]] = {}
  for d in download.descriptions:
    by_scene.setdefault(d.scene_id, []).append(d)
  tables = {}
  for scene in (s for s in download.scenes() if s in clouds):
    cloud = clouds[scene]
    shift_3 = frame.shift(cloud.bounds[0])
    boxes = download.boxes.get(scene)
    if boxes is None:
      boxes = _boxes_of_points(scene, cloud, shift_3)
    boxes = cityrefer_scene.keep_boxes(
      scene, boxes, download.wrong, frame, cloud.bounds, ledger
    )
    cityrefer_scene.check_points(boxes, cloud.objects, shift_3, ledger)
    described = cityrefer_scene.keep_described(
      by_scene[scene], {scene: boxes}, download.wrong, ledger
    )
    tables[scene] = cityrefer_scene.make_tables(
      scene,
      boxes,
      described,
      landmark_names={s.object_id: s.name for s in cloud.segments if s.name},
      outlines=download.outlines.get(scene, {}),
      shift_3=shift_3,
      ledger=ledger,
    )
  return tables


def _boxes_of_points(
  scene: str, cloud: MeasuredCloud, shift_3: np.ndarray
) -> dict[int, RawBox]:
  """Stands in for a missing box file: the bounds of each object's points."""
  boxes = {}
  for segment in cloud.segments:
    if segment.object_id not in cloud.objects:
      continue
    low_high_23 = np.array(cloud.objects[segment.object_id]).reshape(2, 3) - shift_3
    boxes[segment.object_id] = RawBox(
      object_id=segment.object_id,
      category=_SEGMENT_CLASSES.get(segment.label, segment.label),
      landmark=segment.name,
      centre_3=tuple(low_high_23.mean(0).tolist()),
      size_3=tuple(np.ptp(low_high_23, axis=0).tolist()),
      where=f"{scene}.segs.json object {segment.object_id}",
    )
  return boxes
