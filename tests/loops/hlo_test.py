"""Reads compiled programs: loops multiply, groups of one do not count."""

import jax
import jax.numpy as jnp
import pytest

from urbex.loops import hlo

TEXT = """
HloModule jit_f, is_scheduled=true, num_partitions=4

%body (state: (s32[], f32[8,16])) -> (s32[], f32[8,16]) {
  %state = (s32[], f32[8,16]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %x = f32[8,16]{1,0} get-tuple-element(%state), index=1
  %w = f32[16,4]{1,0} constant({...})
  %all-gather.1 = f32[16,16]{1,0} all-gather(%w), channel_id=1, replica_groups=[1,4]<=[4], dimensions={1}
  %dot.1 = f32[8,16]{1,0} dot(%x, %all-gather.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %next = (s32[], f32[8,16]{1,0}) tuple(%i, %dot.1)
}

%done (state.1: (s32[], f32[8,16])) -> pred[] {
  %state.1 = (s32[], f32[8,16]{1,0}) parameter(0)
  ROOT %less = pred[] constant(true)
}

ENTRY %main (x.1: f32[8,16]) -> f32[8,16] {
  %x.1 = f32[8,16]{1,0} parameter(0)
  %zero = s32[] constant(0)
  %start = (s32[], f32[8,16]{1,0}) tuple(%zero, %x.1)
  %while.1 = (s32[], f32[8,16]{1,0}) while(%start), condition=%done, body=%body, backend_config={"known_trip_count":{"n":"5"}}
  %y = f32[8,16]{1,0} get-tuple-element(%while.1), index=1
  %alone = f32[8,16]{1,0} all-reduce(%y), replica_groups={{0},{1},{2},{3}}, to_apply=%add
  ROOT %all-reduce.1 = f32[8,16]{1,0} all-reduce(%alone), replica_groups={{0,1},{2,3}}, to_apply=%add
}

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}
"""  # noqa: E501


def test_a_loop_counts_as_often_as_it_runs():
  work = hlo.work(TEXT)
  assert work.flops == 5 * 2 * 8 * 16 * 16
  assert work.bytes == 5 * 4 * (8 * 16 + 16 * 16 + 8 * 16)


def test_collectives_count_what_a_device_sends():
  work = hlo.work(TEXT)
  # A ring of 4 passes each device's 256 bytes on 3 times; a pair's sum, once and back.
  assert work.counts == {"all-gather": 5, "all-reduce": 1}
  assert work.moved == {"all-gather": 5 * 3 * 256, "all-reduce": 512}


@pytest.mark.parametrize(
  "groups,size",
  [
    ("replica_groups={{0,1,2},{3,4,5}}", 3),
    ("replica_groups=[2,8]<=[16]", 8),
    ("replica_groups=mesh['axis_0'=2,'axis_1'=8] {'axis_1'}", 8),
    ("replica_groups=mesh['a'=2,'b'=8] {'a','b'}", 16),
    ("source_target_pairs={{0,1}}", 2),
  ],
)
def test_group_sizes(groups, size):
  assert (
    hlo.group_size(f"all-reduce(%x), channel_id=1, {groups}, to_apply=%add") == size
  )


def test_a_compiled_scan():
  def f(w, x):
    return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]

  args = jnp.zeros((7, 12, 12)), jnp.zeros((5, 12))
  text = jax.jit(f).lower(*args).compile().as_text()
  assert hlo.work(text).flops == 7 * 2 * 5 * 12 * 12
