// Promises about bits, asked of every implementation: repetition, batch, channels, threads, strides, layout, which
// outputs are wanted, and how far a NaN, an Inf, a huge value or a later input reaches.
#include <thread>

#include "catalogue.hpp"
#include "compare.hpp"

namespace faltung::testing {
namespace {

using Bits = std::vector<std::uint64_t>;

// In channels-first order, whatever the layout.
Bits bits_of(Case const& c, Array const& array, std::int64_t inner) {
  Bits result(array.count());
  for (std::int64_t i = 0; i < array.count(); ++i) result[channels_first_position(c, i, inner)] = array.bits(i);
  return result;
}

struct Results {
  Bits y, dx, dk, dshortcut;
  bool operator==(Results const&) const = default;
};

Results run(Case const& c, Inputs const& in, std::string const& implementation,
            faltung_parallel_for parallel = nullptr) {
  Outputs out(c);
  Results results;
  if (accepts(c, Direction::forward, implementation)) {
    run_forward(c, in, out, implementation.c_str(), parallel);
    results.y = bits_of(c, out.y, c.points());
  }
  if (accepts(c, Direction::backward, implementation)) {
    run_backward(c, in, out, implementation.c_str(), {}, parallel);
    results.dx = bits_of(c, out.dx, c.points());
    results.dk = bits_of(c, out.dk, c.taps());
    results.dshortcut = out.dshortcut.all_bits();
  }
  return results;
}

template <typename Body>
void for_each_case(Body&& body, Variation base = {}) {
  for (auto const& implementation : implementations())
    for (auto const& geometry : geometries("bits"))
      for (auto const [x, k] : dtype_pairs()) {
        base.x_dtype = x;
        base.k_dtype = k;
        auto const c = make_case(geometry, base, 5);
        // One output at a time, the reference has little to get wrong here, and takes its time on the larger ones.
        if (implementation == "cpu.reference" && c.points() * c.taps() > 50000) continue;
        if (!accepts(c, Direction::forward, implementation) && !accepts(c, Direction::backward, implementation))
          continue;
        SCOPED_TRACE(implementation + " " + c.name());
        body(c, implementation);
      }
}

// Inputs of another extent of batch or channels, filled from those of `c` by (b, channel) pairs.
Inputs subset(Case const& c, Inputs const& in, Case const& part, std::int64_t first_batch, std::int64_t first_channel) {
  auto result = make_inputs(part);
  auto const copy = [&](Array const& from, Array& to, std::int64_t leading, std::int64_t inner, std::int64_t b0) {
    auto const all = channels_first(c, from, inner);
    std::vector<double> some;
    for (std::int64_t b = 0; b < leading; ++b)
      for (std::int64_t channel = 0; channel < part.channels; ++channel) {
        auto const start = all.begin() + ((b0 + b) * c.channels + first_channel + channel) * inner;
        some.insert(some.end(), start, start + inner);
      }
    assign_channels_first(part, to, some, inner);
  };
  copy(in.x, result.x, part.batch, c.points(), first_batch);
  copy(in.dy, result.dy, part.batch, c.points(), first_batch);
  copy(in.k, result.k, part.filter_batch(), c.taps(), part.sharing == Sharing::per_sample ? first_batch : 0);
  for (std::int64_t channel = 0; in.shortcut && channel < part.channels; ++channel)
    result.shortcut->set(channel, in.shortcut->get(first_channel + channel));
  return result;
}

Bits slice(Bits const& all, std::int64_t start, std::int64_t count) {
  if (all.empty()) return {};
  return Bits(all.begin() + start, all.begin() + start + count);
}

TEST(LongConvBits, repeats) {
  for_each_case(
      [](Case const& c, std::string const& implementation) {
        auto const in = make_inputs(c);
        auto const first = run(c, in, implementation);
        for (int n = 0; n < (c.points() < 100 ? 100 : 3); ++n)
          ASSERT_TRUE(run(c, in, implementation) == first) << "run " << n;
      },
      {.shortcut = true});
}

TEST(LongConvBits, do_not_depend_on_the_batch) {
  for_each_case(
      [](Case c, std::string const& implementation) {
        c.batch = 8;
        auto const in = make_inputs(c);
        auto const all = run(c, in, implementation);
        for (std::int64_t const count : {1, 3})
          for (std::int64_t b = 0; b + count <= c.batch; b += 3) {
            auto part = c;
            part.batch = count;
            auto const some = run(part, subset(c, in, part, b, 0), implementation);
            auto const plane = c.channels * c.points(), filter = c.channels * c.taps();
            EXPECT_EQ(some.y, slice(all.y, b * plane, count * plane))
                << "y, sample " << b << " of 8, " << count << " at once";
            EXPECT_EQ(some.dx, slice(all.dx, b * plane, count * plane)) << "dx, sample " << b;
            EXPECT_EQ(some.dk, slice(all.dk, b * filter, count * filter)) << "dk, sample " << b;
          }
      },
      {.sharing = Sharing::per_sample, .shortcut = true});
}

TEST(LongConvBits, do_not_depend_on_the_other_channels) {
  for (auto const layout : {Layout::channels_first, Layout::channels_last})
    for_each_case(
        [](Case c, std::string const& implementation) {
          c.channels = 19;  // more than a vector of any target, and no multiple of one
          auto const in = make_inputs(c);
          auto const all = run(c, in, implementation);
          for (std::int64_t const first : {0, 5, 11, 18}) {
            auto part = c;
            part.channels = 1;
            auto const some = run(part, subset(c, in, part, 0, first), implementation);
            for (std::int64_t b = 0; b < c.batch && !some.y.empty(); ++b)
              EXPECT_EQ(slice(some.y, b * c.points(), c.points()),
                        slice(all.y, (b * c.channels + first) * c.points(), c.points()))
                  << "y, channel " << first;
            for (std::int64_t b = 0; b < c.batch && !some.dx.empty(); ++b)
              EXPECT_EQ(slice(some.dx, b * c.points(), c.points()),
                        slice(all.dx, (b * c.channels + first) * c.points(), c.points()))
                  << "dx, channel " << first;
            EXPECT_EQ(some.dk, slice(all.dk, first * c.taps(), c.taps())) << "dk, channel " << first;
            EXPECT_EQ(some.dshortcut, slice(all.dshortcut, first, 1)) << "dshortcut, channel " << first;
          }
        },
        {.layout = layout, .shortcut = true});
}

// Ranges of one, last first, each on a fresh thread.
void backwards(void*, std::int64_t count, faltung_body body, void* argument) {
  for (auto i = count; i-- > 0;) std::thread([=] { body(argument, i, i + 1); }).join();
}

void three_ranges_at_once(void*, std::int64_t count, faltung_body body, void* argument) {
  std::vector<std::thread> threads;
  for (std::int64_t n = 0; n < 3; ++n)
    threads.emplace_back([=] {
      if (count * n / 3 < count * (n + 1) / 3) body(argument, count * n / 3, count * (n + 1) / 3);
    });
  for (auto& thread : threads) thread.join();
}

TEST(LongConvBits, do_not_depend_on_threads) {
  for_each_case(
      [](Case const& c, std::string const& implementation) {
        auto const in = make_inputs(c);
        faltung_set_num_threads(1);
        auto const one = run(c, in, implementation);
        for (int const threads : {2, 3}) {
          faltung_set_num_threads(threads);
          EXPECT_TRUE(run(c, in, implementation) == one) << threads << " threads";
        }
        faltung_set_num_threads(0);
        EXPECT_TRUE(run(c, in, implementation, backwards) == one) << "injected, ranges of one";
        EXPECT_TRUE(run(c, in, implementation, three_ranges_at_once) == one) << "injected, three ranges";
      },
      {.shortcut = true});
}

TEST(LongConvBits, do_not_depend_on_strides_or_layout) {
  for_each_case(
      [](Case const& c, std::string const& implementation) {
        auto const dense = make_inputs(c);
        auto const expected = run(c, dense, implementation);
        for (auto const layout : {Layout::channels_first, Layout::channels_last})
          for (auto const arrangement : writable_arrangements) {
            auto other = c;
            other.layout = layout;
            other.arrangement = arrangement;
            auto in = make_inputs(other);
            EXPECT_TRUE(run(other, in, implementation) == expected) << other.name();
          }
      },
      {.shortcut = true});
}

TEST(LongConvBits, outputs_are_the_same_asked_for_one_by_one) {
  for_each_case(
      [](Case const& c, std::string const& implementation) {
        if (!accepts(c, Direction::backward, implementation)) return;
        auto const in = make_inputs(c);
        auto const all = run(c, in, implementation);
        for (int mask = 0; mask < 8; ++mask) {
          Wanted const wanted{.dx = bool(mask & 1), .dk = bool(mask & 2), .dshortcut = bool(mask & 4)};
          Outputs out(c);
          auto const untouched = out.dx.all_bits(), untouched_dk = out.dk.all_bits(),
                     untouched_shortcut = out.dshortcut.all_bits();
          run_backward(c, in, out, implementation.c_str(), wanted);
          EXPECT_EQ(bits_of(c, out.dx, c.points()), wanted.dx ? all.dx : untouched) << "dx, outputs " << mask;
          EXPECT_EQ(bits_of(c, out.dk, c.taps()), wanted.dk ? all.dk : untouched_dk) << "dk, outputs " << mask;
          EXPECT_EQ(out.dshortcut.all_bits(), wanted.dshortcut ? all.dshortcut : untouched_shortcut)
              << "dshortcut, outputs " << mask;
        }
      },
      {.shortcut = true});
}

// A wild value in one image (b, channel) reaches no other image of y and dx, and no other channel of dk and dshortcut.
TEST(LongConvBits, contain_wild_values) {
  double const infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (auto const layout : {Layout::channels_first, Layout::channels_last})
    for_each_case(
        [&](Case const& c, std::string const& implementation) {
          auto const in = make_inputs(c);
          auto const calm = run(c, in, implementation);
          std::int64_t const b = c.batch - 1, channel = 1, plane = b * c.channels + channel;
          for (double const value : {nan, infinity, -infinity, 1e30}) {
            auto wild = in;
            auto x = channels_first(c, in.x, c.points()), dy = channels_first(c, in.dy, c.points());
            x[plane * c.points() + c.points() / 2] = dy[plane * c.points()] = value;
            assign_channels_first(c, wild.x, x, c.points());
            assign_channels_first(c, wild.dy, dy, c.points());
            auto const got = run(c, wild, implementation);
            for (std::int64_t other = 0; other < c.batch * c.channels; ++other) {
              if (other == plane) continue;
              EXPECT_EQ(slice(got.y, other * c.points(), c.points()), slice(calm.y, other * c.points(), c.points()))
                  << value << " in image " << plane << " changed y of image " << other;
              EXPECT_EQ(slice(got.dx, other * c.points(), c.points()), slice(calm.dx, other * c.points(), c.points()))
                  << value << " in image " << plane << " changed dx of image " << other;
            }
            for (std::int64_t other = 0; other < c.channels; ++other) {
              if (other == channel) continue;
              EXPECT_EQ(slice(got.dk, other * c.taps(), c.taps()), slice(calm.dk, other * c.taps(), c.taps()))
                  << value << ": dk of channel " << other;
              EXPECT_EQ(slice(got.dshortcut, other, 1), slice(calm.dshortcut, other, 1))
                  << value << ": dshortcut of channel " << other;
            }
          }
        },
        {.layout = layout, .shortcut = true});
}

// A causal axis: changing x[t], however far, changes no bit of y before t.
TEST(LongConvBits, causal_axes_are_exact) {
  for_each_case([](Case const& c, std::string const& implementation) {
    if (!accepts(c, Direction::forward, implementation)) return;
    auto const in = make_inputs(c);
    auto const calm = run(c, in, implementation);
    for (int axis = 0; axis < c.rank(); ++axis) {
      if (c.boundaries[axis] != Boundary::causal) continue;
      std::int64_t inner = 1;
      for (int i = axis + 1; i < c.rank(); ++i) inner *= c.extents[i];
      auto const n = c.extents[axis];
      for (std::int64_t const t : {std::int64_t(1), n / 2, n - 1})
        for (double const value : {1e3, 1e6, 1e10}) {
          if (t < 1 || (c.x_dtype == FALTUNG_F16 && value > 1e3)) continue;
          auto changed = in;
          auto x = channels_first(c, in.x, c.points());
          for (std::size_t i = 0; i < x.size(); ++i)
            if (std::int64_t(i) / inner % n >= t) x[i] = value * (1 + double(i % 3));
          assign_channels_first(c, changed.x, x, c.points());
          auto const got = run(c, changed, implementation);
          for (std::size_t i = 0; i < got.y.size(); ++i)
            if (std::int64_t(i) / inner % n < t) {
              ASSERT_EQ(got.y[i], calm.y[i])
                  << "axis " << axis << ": x from " << t << " on set to " << value << " changed y[" << i << "]";
            }
        }
    }
  });
}

}  // namespace
}  // namespace faltung::testing
