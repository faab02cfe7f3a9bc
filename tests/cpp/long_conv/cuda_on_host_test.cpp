// The kernels of cuda.transformed and cuda.direct, compiled for the host (cuda_on_host/), against the double reference:
// index arithmetic, barriers and the bounds of shared memory, without a GPU. Values are checked as on a GPU; causality
// to the bit follows from which sums an output takes part in, so it is checked too.
#include "compare.hpp"

namespace faltung::testing {
namespace {

constexpr auto zero = Boundary::zero, circular = Boundary::circular, causal = Boundary::causal;

Tensor on_device(Tensor view) {
  view.device = FALTUNG_CUDA;
  return view;
}

std::vector<std::byte> workspace(long_conv::Options& options, Direction direction, Inputs const& in) {
  auto const bytes = long_conv::workspace(direction, on_device(in.x.view()), on_device(in.k.view()), options);
  std::vector<std::byte> memory(bytes + 255, std::byte(0xff));
  void* start = memory.data();
  auto space = memory.size();
  if (bytes) options.workspace = {static_cast<std::byte*>(std::align(256, bytes, start, space)), bytes};
  return memory;
}

void run_forward_on_host(Case const& c, Inputs const& in, Array const& y, char const* implementation) {
  auto options = options_of(c, in, implementation);
  if (options.shortcut) options.shortcut = on_device(*options.shortcut);
  auto const memory = workspace(options, Direction::forward, in);
  long_conv::forward(on_device(in.x.view()), on_device(in.k.view()), on_device(y.view()), options);
}

void check(Case const& c, char const* implementation) {
  SCOPED_TRACE(c.name());
  auto const in = make_inputs(c);
  auto const expected = expect(c, in);
  Outputs out(c);
  run_forward_on_host(c, in, out.y, implementation);
  expect_close(c, out.y, c.points(), expected.y, implementation, "y", expected.conditioning.y);
  auto options = options_of(c, in, implementation);
  if (options.shortcut) options.shortcut = on_device(*options.shortcut);
  auto const memory = workspace(options, Direction::backward, in);
  long_conv::backward(on_device(in.dy.view()), on_device(in.x.view()), on_device(in.k.view()),
                      {.dx = on_device(out.dx.view()), .dk = on_device(out.dk.view())}, options);
  expect_close(c, out.dx, c.points(), expected.dx, implementation, "dx", expected.conditioning.dx);
  expect_close(c, out.dk, c.taps(), expected.dk, implementation, "dk", expected.conditioning.dk);
}

Case make(Shape extents, Shape filters, std::vector<Boundary> boundaries, Dtype dtype = FALTUNG_F32) {
  Case c;
  c.batch = 2, c.channels = 2;
  c.extents = std::move(extents), c.filters = std::move(filters), c.boundaries = std::move(boundaries);
  c.x_dtype = c.k_dtype = dtype;
  return c;
}

TEST(LongConvCudaOnHost, GridsAndLines) {
  for (auto const dtype : {FALTUNG_F32, FALTUNG_F64, FALTUNG_BF16}) {
    check(make({50}, {99}, {zero}, dtype), "cuda.transformed");
    check(make({20, 33}, {39, 65}, {zero, zero}, dtype), "cuda.transformed");
    check(make({40, 17}, {40, 17}, {causal, zero}, dtype), "cuda.transformed");
    check(make({20, 32}, {5, 40}, {circular, circular}, dtype), "cuda.transformed");
    check(make({5, 9, 12}, {9, 17, 12}, {zero, zero, circular}, dtype), "cuda.transformed");
  }
  check(make({75}, {149}, {zero}), "cuda.transformed");                // 3 times a power of two
  check(make({66, 18}, {131, 35}, {zero, zero}), "cuda.transformed");  // 5 times
  check(make({9000}, {65}, {zero}), "cuda.transformed");               // rows x columns
}

TEST(LongConvCudaOnHost, CausalAxes) {
  for (auto const dtype : {FALTUNG_F32, FALTUNG_F64, FALTUNG_F16}) {
    check(make({300}, {300}, {causal}, dtype), "cuda.transformed");
    check(make({33, 40}, {33, 40}, {causal, causal}, dtype), "cuda.transformed");
    check(make({9, 20, 10}, {9, 20, 19}, {causal, causal, zero}, dtype), "cuda.transformed");
  }
  check(make({140, 12}, {140, 12}, {causal, zero}), "cuda.transformed");  // in blocks
}

TEST(LongConvCudaOnHost, SmallFilters) {
  for (auto const dtype : {FALTUNG_F32, FALTUNG_F64, FALTUNG_BF16}) {
    check(make({40, 70}, {7, 6}, {zero, circular}, dtype), "cuda.direct");
    check(make({20, 33}, {5, 13}, {causal, zero}, dtype), "cuda.direct");
    check(make({4, 18, 34}, {3, 4, 5}, {circular, zero, causal}, dtype), "cuda.direct");
  }
}

TEST(LongConvCudaOnHost, ChannelsLastAndFiltersPerSample) {
  auto c = make({20, 32}, {5, 31}, {zero, circular}, FALTUNG_BF16);
  c.channels = 17, c.layout = Layout::channels_last, c.shortcut = true;
  check(c, "cuda.transformed");
  c.sharing = Sharing::per_sample;
  check(c, "cuda.transformed");
  c.filters = {5, 7};
  check(c, "cuda.direct");
}

TEST(LongConvCudaOnHost, CausalToTheBit) {
  for (auto const& c :
       {make({100}, {100}, {causal}), make({40, 70}, {40, 70}, {causal, causal}),
        make({140, 12}, {140, 12}, {causal, zero}), make({9, 20, 10}, {9, 20, 19}, {causal, causal, zero}),
        make({40, 40}, {7, 6}, {causal, causal})}) {
    SCOPED_TRACE(c.name());
    auto in = make_inputs(c);
    char const* const implementation = c.filters.back() == 6 ? "cuda.direct" : "cuda.transformed";
    Outputs before(c), after(c);
    run_forward_on_host(c, in, before.y, implementation);
    // From the middle of each causal axis on, everything changes.
    for (int axis = 0; axis < c.rank(); ++axis) {
      if (c.boundaries[axis] != causal) continue;
      std::int64_t inner = 1;
      for (int i = axis + 1; i < c.rank(); ++i) inner *= c.extents[i];
      auto const is_later = [&](std::int64_t i) { return i / inner % c.extents[axis] >= c.extents[axis] / 2; };
      auto changed = make_inputs(c);
      for (std::int64_t i = 0; i < changed.x.count(); ++i)
        if (is_later(i)) changed.x.set(i, 1e10);
      run_forward_on_host(c, changed, after.y, implementation);
      for (std::int64_t i = 0; i < before.y.count(); ++i)
        if (!is_later(i)) ASSERT_EQ(before.y.bits(i), after.y.bits(i)) << "output " << i << ", axis " << axis;
    }
  }
}

}  // namespace
}  // namespace faltung::testing
