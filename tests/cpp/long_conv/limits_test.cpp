// Inputs on which comparable software failed: offsets beyond 2^32 elements, 70000 images, prime lengths, sweeps of odd
// sizes, fp16 near its largest value, empty batches, a thousand shapes. Calls name no implementation: what serves is
// what dispatch picks.
#include <sys/mman.h>
#include <unistd.h>

#include "catalogue.hpp"
#include "compare.hpp"

namespace faltung::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool address_sanitizer = true;
#elif defined(__has_feature)
constexpr bool address_sanitizer = __has_feature(address_sanitizer);
#else
constexpr bool address_sanitizer = false;
#endif

// Address space without memory behind it: pages appear when touched.
class Reserved {
 public:
  explicit Reserved(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Reserved() {
    if (*this) munmap(data_, bytes_);
  }
  Reserved(Reserved const&) = delete;
  explicit operator bool() const { return data_ != MAP_FAILED; }
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

// The dense result, and the same through views whose axis `far` has a stride of more than 2^32 elements.
TEST(LongConvLimits, offsets_beyond_32_bits) {
  std::int64_t const far_stride = (std::int64_t(1) << 32) + 24;
  for (auto const dtype : {FALTUNG_BF16, FALTUNG_F32})
    for (int far = 0; far < 4; ++far) {
      Case c = make_case({.batch = 2,
                          .channels = 2,
                          .extents = {2, 2},
                          .filters = {2, 3},
                          .boundaries = {Boundary::zero, Boundary::causal}},
                         {.x_dtype = dtype, .k_dtype = dtype, .sharing = Sharing::per_sample});
      auto const in = make_inputs(c);
      Outputs dense(c);
      run_forward(c, in, dense, nullptr);
      run_backward(c, in, dense, nullptr);

      auto const bytes = std::size_t(far_stride + 64) * std::size_t(size_of(dtype));
      Reserved x(bytes), dy(bytes), y(bytes), dx(bytes);
      if (!x || !dy || !y || !dx) GTEST_SKIP() << "the system does not reserve " << bytes << " bytes of address space";
      auto const widen = [&](Reserved const& memory) {
        auto view = faltung::view(memory.data(), dtype, c.x_shape());
        view.strides[far] = far_stride;
        return view;
      };
      auto const offset = [&](Tensor const& view, std::int64_t i) {
        std::int64_t at = 0;
        for (int axis = 3; axis >= 0; --axis, i /= 2) at += i % 2 * view.strides[axis];
        return static_cast<unsigned char*>(view.data) + at * size_of(dtype);
      };
      auto const wide_x = widen(x), wide_dy = widen(dy), wide_y = widen(y), wide_dx = widen(dx);
      for (std::int64_t i = 0; i < in.x.count(); ++i) {
        auto const x_bits = in.x.bits(i), dy_bits = in.dy.bits(i);
        std::memcpy(offset(wide_x, i), &x_bits, std::size_t(size_of(dtype)));
        std::memcpy(offset(wide_dy, i), &dy_bits, std::size_t(size_of(dtype)));
      }
      auto options = options_of(c, in, nullptr);
      Array dk(dtype, c.k_shape());
      {
        Workspace const workspace(options, Direction::forward, in);
        long_conv::forward(wide_x, in.k.view(), wide_y, options);
      }
      {
        Workspace const workspace(options, Direction::backward, in);
        long_conv::backward(wide_dy, wide_x, in.k.view(), {.dx = wide_dx, .dk = dk.view()}, options);
      }
      for (std::int64_t i = 0; i < in.x.count(); ++i) {
        std::uint64_t y_bits = 0, dx_bits = 0;
        std::memcpy(&y_bits, offset(wide_y, i), std::size_t(size_of(dtype)));
        std::memcpy(&dx_bits, offset(wide_dx, i), std::size_t(size_of(dtype)));
        EXPECT_EQ(y_bits, dense.y.bits(i)) << "y, far axis " << far << ", element " << i;
        EXPECT_EQ(dx_bits, dense.dx.bits(i)) << "dx, far axis " << far << ", element " << i;
      }
      EXPECT_EQ(dk.all_bits(), dense.dk.all_bits()) << "dk, far axis " << far;
    }
}

// What dispatch picks, in both directions.
void check_chosen(Case const& c) {
  std::vector<std::string> names{chosen(c, Direction::forward)};
  if (auto backward = chosen(c, Direction::backward); backward != names[0]) names.push_back(std::move(backward));
  check_against_reference(c, names);
}

TEST(LongConvLimits, seventy_thousand_samples_or_channels) {
  for (bool const channels : {false, true}) {
    auto const dtype = channels ? FALTUNG_BF16 : FALTUNG_F32;
    Geometry const g{.batch = channels ? 1 : 70000,
                     .channels = channels ? 70000 : 1,
                     .extents = {4, 4},
                     .filters = {3, 4},
                     .boundaries = {Boundary::zero, Boundary::zero}};
    check_chosen(
        make_case(g, {.x_dtype = dtype, .k_dtype = dtype, .sharing = channels ? Sharing::plain : Sharing::per_sample}));
  }
}

TEST(LongConvLimits, every_height_and_width_up_to_70) {
  int sizes_since_failure = 0;
  for (std::int64_t h = 1; h <= 70; ++h)
    for (std::int64_t w = 1; w <= 70; ++w) {
      // Small filters everywhere; the full 2N - 1 on a diagonal band that meets each h and each w, on both axes where
      // the reference can afford it.
      bool const full = (w * 29 + h) % 71 == 0, both = h * w <= 900;
      Shape const filters{full && (both || h % 2) ? 2 * h - 1 : 1 + h % 5,
                          full && (both || h % 2 == 0) ? 2 * w - 1 : 1 + w % 4};
      Geometry const g{.batch = 1,
                       .channels = 1,
                       .extents = {h, w},
                       .filters = filters,
                       .boundaries = {Boundary((h + w) % 3), Boundary(w % 3)}};
      check_chosen(make_case(g, {.x_dtype = (h * w) % 2 ? FALTUNG_F32 : FALTUNG_BF16}, std::uint64_t(h * 71 + w)));
      if (sizes_since_failure += HasFailure(); sizes_since_failure > 1000) return;
    }
}

// Sums in double of a few outputs, where the whole reference would take minutes.
struct Sampled {
  Case c;
  Inputs in;
  std::vector<double> x, k, dy;
  explicit Sampled(Case const& call)
      : c(call), in(make_inputs(c)), x(in.x.values()), k(in.k.values()), dy(in.dy.values()) {}
  std::int64_t n() const { return c.extents[0]; }
  std::int64_t taps() const { return c.filters[0]; }
  std::int64_t centre() const { return c.boundaries[0] == Boundary::zero ? taps() / 2 : 0; }
  double y(std::int64_t i) const {
    double sum = 0;
    for (std::int64_t m = std::max<std::int64_t>(0, i + centre() - n() + 1); m < taps() && m <= i + centre(); ++m)
      sum += x[i + centre() - m] * k[m];
    return sum;
  }
  double dx(std::int64_t j) const {
    double sum = 0;
    for (std::int64_t m = std::max<std::int64_t>(0, centre() - j); m < taps() && j - centre() + m < n(); ++m)
      sum += dy[j - centre() + m] * k[m];
    return sum;
  }
  double dk(std::int64_t m) const {
    double sum = 0;
    for (std::int64_t i = std::max<std::int64_t>(0, m - centre()); i < n() && i + centre() - m < n(); ++i)
      sum += dy[i] * x[i + centre() - m];
    return sum;
  }
};

template <typename Exact>
void expect_samples(Sampled const& s, Array const& got, std::string const& implementation, char const* what,
                    Exact&& exact) {
  std::vector<double> expected, values;
  for (std::int64_t sample = 0; sample < 96; ++sample) {
    auto const i = sample * (got.count() - 1) / 95;
    expected.push_back(exact(i));
    values.push_back(got.get(i));
  }
  bool const transformed = implementation.find("transformed") != std::string::npos;
  double const limit = bound(s.c, expected, got.dtype(), transformed);
  EXPECT_LE(relative_error(values, expected), limit) << implementation << " " << what << " of " << s.c.name();
  for (std::int64_t i = 0; i < got.count(); ++i)
    ASSERT_TRUE(std::isfinite(got.get(i))) << what << "[" << i << "] was not written";
}

TEST(LongConvLimits, long_and_prime_sequences) {
  for (std::int64_t const n : {4096, 5999, 14113, 49951, 65536})
    for (auto const boundary : {Boundary::causal, Boundary::zero})
      for (auto const dtype : {FALTUNG_F32, FALTUNG_BF16, FALTUNG_F64}) {
        Sampled const s(make_case({.batch = 1, .channels = 1, .extents = {n}, .filters = {n}, .boundaries = {boundary}},
                                  {.x_dtype = dtype, .k_dtype = dtype, .arrangement = Arrangement::misaligned}));
        auto const forward = chosen(s.c, Direction::forward), backward = chosen(s.c, Direction::backward);
        if (n > 6000 && (forward == "cpu.reference" || backward == "cpu.reference")) {
          std::cout << "[  LOUDLY  ] " << s.c.name() << " left out: the reference would serve it\n";
          continue;
        }
        Outputs out(s.c);
        run_forward(s.c, s.in, out, nullptr);
        expect_samples(s, out.y, forward, "y", [&](std::int64_t i) { return s.y(i); });
        run_backward(s.c, s.in, out, nullptr, {.dshortcut = false});
        expect_samples(s, out.dx, backward, "dx", [&](std::int64_t i) { return s.dx(i); });
        expect_samples(s, out.dk, backward, "dk", [&](std::int64_t i) { return s.dk(i); });
      }
}

// Exact up to 32768 points: whatever happens to x from t on, y before t keeps its bits.
TEST(LongConvLimits, long_causal_sequences_are_exact) {
  for (std::int64_t const n : {2048, 9001, 32768})
    for (auto const dtype : {FALTUNG_F32, FALTUNG_BF16, FALTUNG_F64}) {
      auto const c =
          make_case({.batch = 1, .channels = 1, .extents = {n}, .filters = {n}, .boundaries = {Boundary::causal}},
                    {.x_dtype = dtype, .k_dtype = dtype});
      auto const in = make_inputs(c);
      Outputs calm(c);
      run_forward(c, in, calm, nullptr);
      for (std::int64_t const t :
           {std::int64_t(1), std::int64_t(63), std::int64_t(64), std::int64_t(1000), n / 2 + 3, n - 1})
        for (double const value : {1e6, 1e10}) {
          auto changed = in;
          for (auto i = t; i < n; ++i) changed.x.set(i, value * (1 + double(i % 3)));
          Outputs out(c);
          run_forward(c, changed, out, nullptr);
          std::int64_t different = 0;
          for (std::int64_t i = 0; i < t; ++i) different += out.y.bits(i) != calm.y.bits(i);
          EXPECT_EQ(different, 0) << "outputs before " << t << " changed when x from there on became " << value << ": "
                                  << c.name();
        }
    }
}

TEST(LongConvLimits, half_precision_near_its_largest_value) {
  for (auto const& implementation : implementations())
    for (std::int64_t const n : {8, 24}) {
      auto const c = make_case({.batch = 1,
                                .channels = 2,
                                .extents = {n, n},
                                .filters = {2 * n - 1, 2 * n - 1},
                                .boundaries = {Boundary::zero, Boundary::zero}},
                               {.x_dtype = FALTUNG_F16, .k_dtype = FALTUNG_F16, .filter = FilterKind::smooth});
      if (!accepts(c, Direction::forward, implementation)) continue;
      auto in = make_inputs(c);
      for (std::int64_t i = 0; i < in.x.count(); ++i) in.x.set(i, i % 5 ? 65504 : 65440);
      auto k = in.k.values();
      for (auto& value : k) value *= 0.6;  // positive, sum 0.9 at most: outputs stay below 65504
      in.k.assign(k);
      auto const expected = expect(c, in);
      Outputs out(c);
      run_forward(c, in, out, implementation.c_str());
      expect_close(c, out.y, c.points(), expected.y, implementation, "y", expected.conditioning.y);
    }
}

TEST(LongConvLimits, empty_batches_and_channels) {
  for (auto const sharing : {Sharing::plain, Sharing::one, Sharing::per_sample})
    for (auto const layout : {Layout::channels_first, Layout::channels_last}) {
      Case c = make_case({.batch = 0,
                          .channels = 2,
                          .extents = {16, 16},
                          .filters = {3, 4},
                          .boundaries = {Boundary::zero, Boundary::zero}},
                         {.layout = layout, .sharing = sharing});
      auto const in = make_inputs(c);
      Outputs out(c);
      run_forward(c, in, out, nullptr);
      run_backward(c, in, out, nullptr);
      EXPECT_EQ(out.dk.values(), std::vector<double>(out.dk.count(), 0.0)) << "dk of an empty batch";
      EXPECT_EQ(out.dshortcut.values(), std::vector<double>(2, 0.0)) << "dshortcut of an empty batch";
      EXPECT_TRUE(out.dk.gaps_intact() && out.y.gaps_intact() && out.dx.gaps_intact());
      c.batch = 2;
      c.channels = 0;
      auto const none = make_inputs(c);
      Outputs nothing(c);
      run_forward(c, none, nothing, nullptr);
      run_backward(c, none, nothing, nullptr);
      EXPECT_TRUE(nothing.y.gaps_intact() && nothing.dk.gaps_intact());
    }
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(LongConvLimits, a_thousand_shapes_in_constant_memory) {
  if (address_sanitizer)
    GTEST_SKIP() << "AddressSanitizer keeps freed memory in quarantine: resident bytes tell nothing";
  auto const run_shapes = [](std::int64_t first, std::int64_t last) {
    for (auto n = first; n < last; ++n) {
      auto const c = make_case({.batch = 1,
                                .channels = 1,
                                .extents = {5 + n % 40, 4 + n / 40},
                                .filters = {1 + n % 7, 9 + n % 11},
                                .boundaries = {Boundary::zero, Boundary::zero}},
                               {});
      auto const in = make_inputs(c);
      Outputs out(c);
      run_forward(c, in, out, nullptr);
      run_backward(c, in, out, nullptr);
    }
  };
  run_shapes(0, 1000);  // every shape once: caches, if any, and the allocator reach their size
  auto const before = resident_bytes();
  run_shapes(1000, 2000);
  EXPECT_LE(resident_bytes() - before, 4 << 20) << "bytes that 1000 further shapes left behind";
}

}  // namespace
}  // namespace faltung::testing
