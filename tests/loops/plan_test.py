"""The plan: its sizes by hand, its verdict, and a small one from end to end."""

import json
import math

import jax
import pytest

from urbex import config_files
from urbex.core.errors import UserError
from urbex.env.settings import EnvSettings
from urbex.launch import main
from urbex.loops import plan, plan_shapes
from urbex.loops.devices import find_device
from urbex.loops.hlo import Work
from urbex.loops.plan_table import Plan, Program, table
from urbex.model.config import ModelConfig
from urbex.model.lora import LoraSettings, init_adapters
from urbex.model.preprocess import Preprocessor
from urbex.model.released import released_config
from urbex.rollout.driver import RolloutSettings

ROLLOUT = RolloutSettings(slots=256, max_tokens=12288, max_turn_tokens=512)


def paper(**changes) -> plan_shapes.Workload:
  """The paper's batch on 16 devices, or something near it."""
  values = dict(questions=32, group=8, micro_batch=16, prompt_tokens=2048, ways=16)
  env, pixels = changes.pop("env", EnvSettings()), Preprocessor()
  rollout = changes.pop("rollout", ROLLOUT)
  return plan_shapes.workload(env, rollout, pixels, **values | changes)


class TestWorkload:
  def test_the_papers_batch(self):
    work = paper()
    assert work.micro_batches == 16 and work.batch.rows == 16
    assert work.batch.tokens == work.capacity == 12288
    # 8 turns of 512 tokens in each device's row.
    assert work.batch.policy == 4096
    # 2 questions' overviews of 62 x 62 patches, a place on each device; 7 oblique
    # views of 640 x 480 px = 40 x 30 patches a row, 112 in a bucket of 128.
    assert work.batch.groups == ((128, 1280), (16, 4096))
    assert work.slots == 256 and work.pool == (512, 1024)

  def test_half_of_a_group_is_trained_on(self):
    work = paper(trained=4)
    assert work.episodes == work.slots == 256 and work.micro_batches == 8

  def test_rows_divide_over_devices(self):
    work = paper(micro_batch=10, ways=4)
    assert work.batch.rows == 12 and work.micro_batches == math.ceil(256 / 12)
    assert all(count % 4 == 0 for count, _ in work.batch.groups)

  def test_without_tools_that_show_there_are_no_later_pictures(self):
    work = paper(env=EnvSettings(tools=("landmark_query",)))
    assert work.batch.images == 1 and len(work.batch.groups) == 1

  def test_a_prompt_that_no_episode_holds_is_refused(self):
    with pytest.raises(UserError, match=r"prompt_tokens: 20000 .* 12288"):
      paper(prompt_tokens=20000)


@pytest.fixture
def made():
  """A plan whose numbers are round."""
  work = Work(flops=2e12, bytes=4e9)
  work.moved["all-gather"], work.counts["all-gather"] = 8e9, 36
  alone = Work(flops=1e11, bytes=1e10)
  programs = {
    "update": Program(int(30e9), work, "bfloat16", 1.0),
    "apply": Program(int(1e9), Work(), "bfloat16", 1.0),
    "prefill": Program(int(2e9), alone, "bfloat16", 1.0),
    "decode": Program(int(1e9), alone, "bfloat16", 1.0),
  }
  names = ("parameters", "optimiser", "gradients", "weights", "features")
  held = dict.fromkeys(names, int(1e9))
  held |= {"cache": int(24e9), "batches": 0, "reference": 0, "adapters": 0}
  return Plan(
    model="4b",
    device="h20",
    hardware=find_device("h20"),
    devices=16,
    tensor=1,
    spare=0.1,
    work=paper(),
    passes=1,
    turns=8,
    turn_tokens=100,
    dtypes=("bfloat16", "bfloat16"),
    held=held,
    programs=programs,
  )


class TestVerdict:
  def test_phases_add_up(self, made):
    # Prompts: 2,048 of 12,288 tokens of the cache. Update: 1 + 1 + 1 + 30.
    prefill = made.memory["prefill"]
    assert prefill["prompts"] == int(4e9)
    assert sum(prefill.values()) == int((1 + 1 + 1 + 24 + 1 + 4 + 2) * 1e9)
    assert made.phase == "prefill" and made.peak == int(34e9)
    assert made.spare_fraction == pytest.approx(1 - 34 / 96)
    assert made.fits and made.reason == "" and made.decode_collectives == 0

  def test_a_small_device_is_refused_with_a_way_out(self, made):
    made.hardware = find_device("h20", memory_gb=36)
    assert made.spare_fraction == pytest.approx(1 - 34 / 36) and not made.fits
    assert "34.0 GB of a device's 36 GB" in made.reason
    assert "cache take 24.0 GB" in made.reason and "rollout.slots" in made.reason

  def test_rooflines(self, made):
    # 2 TFLOP at 148 a second; 8 GB at 400 a second over the network take longer.
    seconds = made.seconds("update")
    assert seconds["compute"] == pytest.approx(2 / 148)
    assert seconds["links"] == pytest.approx(8 / 400)
    token_s = 1e10 / 4e12
    wanted = 16 * 8 / 400 + token_s + 800 * token_s
    assert made.step_s == pytest.approx(wanted)
    # Alone: a sixteenth of a device's slots, and all of the weights.
    alone_s = 800 * (1e9 + 1.5e9) / 4e12
    assert made.query_s == pytest.approx(alone_s + 1e11 / 4 / 148e12, rel=0.02)

  def test_the_merge_of_adapters_is_a_phase_and_takes_time(self, made):
    before_s = made.step_s
    made.held["adapters"] = int(2e9)
    merge = Work(bytes=4e12)
    made.programs["merge"] = Program(int(40e9), merge, "float32", 1.0)
    # Adapters, optimiser and two copies of the weights; 4 TB at 4 TB/s.
    assert sum(made.memory["merge"].values()) == int((1 + 2 + 1 + 1 + 40) * 1e9)
    assert made.phase == "merge"
    assert made.step_s == pytest.approx(before_s + 1)

  def test_the_table_and_the_file_say_the_same(self, made):
    values = json.loads(json.dumps(made.to_dict()))
    assert values["fits"] is True and values["decode_collectives"] == 0
    assert values["programs"]["update"]["collectives"]["all-gather"]["count"] == 36
    text = table(made)
    assert "fits: yes, 65% of the memory" in text and "34.0 GB at most" in text


def test_what_does_not_fit_ends_with_status_1(made, monkeypatch, tmp_path, capsys):
  made.hardware = find_device("h20", memory_gb=36)
  monkeypatch.setattr(plan, "make_plan", lambda config: made)
  with pytest.raises(SystemExit, match="of which must stay free"):
    main(["--config=plan", f"--config.output={tmp_path / 'plan.json'}"])
  assert json.loads((tmp_path / "plan.json").read_text())["fits"] is False
  assert "fits: NO, 6%" in capsys.readouterr().out


class TestSettings:
  def test_a_device_with_other_numbers(self):
    device = plan.PlanSettings(device="H200", memory_gb=100).hardware
    assert device.memory_gb == 100 and device.tflops == 989

  def test_an_unknown_device_is_refused(self):
    with pytest.raises(UserError, match=r"did you mean 'h200'|h200"):
      _ = plan.PlanSettings(device="h2000").hardware

  @pytest.mark.parametrize("bad", [{"devices": 0}, {"spare": 1.0}, {"tflops": -3.0}])
  def test_bad_numbers_are_refused(self, bad):
    with pytest.raises(UserError, match=next(iter(bad))):
      plan.PlanSettings(**bad)

  def test_a_published_model_needs_no_folder(self):
    config, pixels = plan.planned_model("weights/Qwen3-VL-4B-Instruct")
    assert config == released_config("4b") and pixels == Preprocessor()
    assert plan.planned_model("32b")[0].text.layers == 64
    with pytest.raises(UserError, match="2b, 4b"):
      plan.planned_model("7b")


@pytest.mark.parametrize("name", ["grpo_cityrefer", "grpo_helsinki", "smoke"])
def test_every_config_that_trains_can_be_planned_as_it_is(name):
  config = config_files.load(f"plan:{name}")[1]
  rollout = RolloutSettings(**config.rollout)
  work = paper(prompt_tokens=config.plan.prompt_tokens, rollout=rollout)
  assert work.prompt_tokens <= work.capacity


def test_a_config_that_trains_nothing_is_refused():
  with pytest.raises(UserError, match="plan:inspect: trains nothing"):
    config_files.load("plan:inspect")


@pytest.fixture(scope="module")
def small(policy_folder, tmp_path_factory):
  """Words that plan the tests' model, and where they write."""
  output = tmp_path_factory.mktemp("plan") / "plan.json"
  words = {
    "model": policy_folder,
    "output": output,
    "plan.devices": 4,
    "plan.prompt_tokens": 64,
    "rollout.slots": 8,
    "rollout.max_tokens": 128,
    "rollout.max_turn_tokens": 8,
    "grpo.questions": 2,
    "grpo.group": 4,
    "grpo.trained": 0,
    "updates.micro_batch": 8,
  }
  return [f"--config.{key}={value}" for key, value in words.items()], output


def test_a_small_plan(small, capsys):
  words, output = small
  assert main(["--config=plan:grpo_helsinki", *words]) == 0
  values = json.loads(output.read_text())
  assert values["fits"] and values["decode_collectives"] == 0
  # Parameters are gathered, and their gradients summed, in every layer.
  collectives = values["programs"]["update"]["collectives"]
  assert collectives["all-gather"]["count"] > 10
  model = values["workload"]
  assert model["batch"]["rows"] == 8 and model["slots"] == 8
  update, decode = (values["programs"][name] for name in ("update", "decode"))
  assert update["flops"] > 100 * decode["flops"] > 0
  assert f"written to {output}" in capsys.readouterr().out


def test_adapters_alone_have_gradients_and_moments(small, policy_folder, capsys):
  words, output = small
  more = ["--config.lora.rank=2", "--config.loss.kl=0.01"]
  assert main(["--config=plan", *words, *more]) == 0
  values = json.loads(output.read_text())
  model = ModelConfig.from_folder(policy_folder)
  trained = init_adapters(model, LoraSettings(rank=2), seed=0)
  size = sum(leaf.nbytes for leaf in jax.tree.leaves(trained))
  held = values["memory"]["update"]
  assert held["adapters"] == held["gradients"] == size
  # Two moments and a counter; frozen weights are their own reference.
  assert held["optimiser"] == 2 * size + 4 and held["reference"] == 0
  # The frozen weights are still there: float32, what divides over four devices.
  weights = values["memory"]["merge"]["weights"]
  assert 2 * weights / 4 <= held["parameters"] < weights
  assert values["programs"]["merge"]["flops"] > 0
  assert values["decode_collectives"] == 0
  assert "LoRA of rank 2" in capsys.readouterr().out


def test_heads_that_do_not_divide_are_refused_before_any_compile(small):
  words, _ = small
  words = [*words, "--config.grpo.tensor=4"]
  config = config_files.load("plan:grpo_helsinki", words)[1]
  with pytest.raises(UserError, match=r"do(es)? not divide over 4"):
    plan.make_plan(config)
