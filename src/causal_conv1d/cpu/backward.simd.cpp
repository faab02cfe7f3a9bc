// The backward's kernels. dz = dy * act'(z) with z as in the forward; dxs = sum over taps of weight * dz; partial sums
// of dweight and dbias, no chain of more than 64 terms in fp32, the rest in double.
#include "causal_conv1d/cpu/activation.simd.hpp"
#include "causal_conv1d/cpu/kernels.hpp"

namespace faltung::causal_conv1d::cpu::FALTUNG_SIMD {
namespace {

inline constexpr std::int64_t chain = 64;

template <typename Real>
FALTUNG_INLINE double sum_of_lanes(Vector<Real> v) {
  double sum = 0;
  for (int i = 0; i < lanes<Real>; ++i) sum += double(v[i]);
  return sum;
}

// ---- along time: one channel -------------------------------------------------------------------------------

// dz[i] = dy[i] * silu'(z[i]), in place of dy.
template <typename Real>
void silu_time(TimeBackward const& c) {
  constexpr int n = lanes<Real>;
  auto const xs = static_cast<Real const*>(c.xs), weight = static_cast<Real const*>(c.weight);
  auto const dz = static_cast<Real*>(c.dz);
  Vector<Real> const bias = broadcast<Real>(*static_cast<Real const*>(c.bias));
  for (std::int64_t at = 0; at < c.count; at += 2 * n) {  // the tile has room for whole pairs
    Vector<Real> z[2] = {bias, bias};
    for (int j = 0; j < c.width; ++j) {
      Vector<Real> const w = broadcast<Real>(weight[j]);
      z[0] = fma(w, load(xs + at + j), z[0]);
      z[1] = fma(w, load(xs + at + n + j), z[1]);
    }
    silu_derivative<Real, 2>(z);
    store(dz + at, load(dz + at) * z[0]);
    store(dz + at + n, load(dz + at + n) * z[1]);
  }
}

// dx[i] = sum_j weight[W-1-j] dz[i + j]
template <typename Real>
void input_time(TimeBackward const& c) {
  constexpr int n = lanes<Real>;
  auto const dz = static_cast<Real const*>(c.dz), weight = static_cast<Real const*>(c.weight);
  auto const dx = static_cast<Real*>(c.dx);
  for (std::int64_t at = 0; at < c.count; at += 2 * n) {
    Vector<Real> first = broadcast<Real>(Real(0)), second = first;
    for (int j = 0; j < c.width; ++j) {
      Vector<Real> const w = broadcast<Real>(weight[c.width - 1 - j]);
      first = fma(w, load(dz + at + j), first);
      second = fma(w, load(dz + at + n + j), second);
    }
    store(dx + at, first);
    store(dx + at + n, second);
  }
}

// dweight[j] += sum_i dz[i] xs[i + j], dweight[W] += sum_i dz[i]; only i < count takes part, whatever lies behind.
template <typename Real>
void parameters_time(TimeBackward const& c) {
  constexpr int n = lanes<Real>;
  auto const xs = static_cast<Real const*>(c.xs), dz = static_cast<Real const*>(c.dz);
  for (std::int64_t begin = 0; begin < c.count; begin += chain * n) {
    std::int64_t const end = begin + chain * n < c.count ? begin + chain * n : c.count,
                       whole = begin + (end - begin) / n * n;
    int const rest = int(end - whole);
    for (int j = 0; j <= c.width; j += 4) {  // four sums at a time share the loads of dz
      int const sums = c.width + 1 - j < 4 ? c.width + 1 - j : 4;
      Vector<Real> sum[4] = {};
      auto const add = [&](Vector<Real> d, auto&& tokens) __attribute__((always_inline)) {
        for (int i = 0; i < 4; ++i)
          if (i < sums) sum[i] = j + i == c.width ? sum[i] + d : fma(d, tokens(j + i), sum[i]);
      };
      if (j + 4 <= c.width)
        for (std::int64_t at = begin; at < whole; at += n) {
          Vector<Real> const d = load(dz + at);
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) sum[i] = fma(d, load(xs + at + j + i), sum[i]);
        }
      else
        for (std::int64_t at = begin; at < whole; at += n)
          add(
              load(dz + at), [&](int tap) __attribute__((always_inline)) { return load(xs + at + tap); });
      if (rest)
        add(
            load_partial<Real>(dz + whole, rest), [&](int tap) __attribute__((always_inline)) {
              return load_partial<Real>(xs + whole + tap, rest);
            });
      for (int i = 0; i < sums; ++i) c.dweight[j + i] += sum_of_lanes<Real>(sum[i]);
    }
  }
}

// ---- along channels: a block of them ------------------------------------------------------------------------

template <typename Real>
void silu_channel(ChannelBackward const& c) {
  constexpr int n = lanes<Real>;
  auto const xs = static_cast<Real const*>(c.xs), weight = static_cast<Real const*>(c.weight),
             bias = static_cast<Real const*>(c.bias);
  auto const dz = static_cast<Real*>(c.dz);
  for (std::int64_t t = 0; t < c.tokens; ++t)
    for (std::int64_t at = 0; at < c.stride; at += n) {
      Vector<Real> z[1] = {load(bias + at)};
      for (int j = 0; j < c.width; ++j)
        z[0] = fma(load(weight + j * c.stride + at), load(xs + (t + j) * c.stride + at), z[0]);
      silu_derivative<Real, 1>(z);
      store(dz + t * c.stride + at, load(dz + t * c.stride + at) * z[0]);
    }
}

template <typename Real>
void input_channel(ChannelBackward const& c) {
  constexpr int n = lanes<Real>;
  auto const dz = static_cast<Real const*>(c.dz), weight = static_cast<Real const*>(c.weight);
  auto const dx = static_cast<Real*>(c.dx);
  for (std::int64_t t = 0; t < c.tokens; ++t)
    for (std::int64_t at = 0; at < c.stride; at += n) {
      Vector<Real> sum = broadcast<Real>(Real(0));
      for (int j = 0; j < c.width; ++j)
        sum = fma(load(weight + (c.width - 1 - j) * c.stride + at), load(dz + (t + j) * c.stride + at), sum);
      store(dx + t * c.stride + at, sum);
    }
}

template <typename Real>
FALTUNG_INLINE void add_to(double* to, Vector<Real> v) {
  for (int i = 0; i < lanes<Real>; ++i) to[i] += double(v[i]);
}

template <typename Real>
void parameters_channel(ChannelBackward const& c) {
  constexpr int n = lanes<Real>;
  auto const xs = static_cast<Real const*>(c.xs), dz = static_cast<Real const*>(c.dz);
  for (std::int64_t begin = 0; begin < c.tokens; begin += chain) {
    std::int64_t const end = begin + chain < c.tokens ? begin + chain : c.tokens;
    for (std::int64_t at = 0; at < c.stride; at += n) {
      int j = 0;
      for (; j + 4 <= c.width; j += 4) {
        Vector<Real> sum[4] = {};
        for (std::int64_t t = begin; t < end; ++t) {
          Vector<Real> const d = load(dz + t * c.stride + at);
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) sum[i] = fma(d, load(xs + (t + j + i) * c.stride + at), sum[i]);
        }
        for (int i = 0; i < 4; ++i) add_to<Real>(c.dweight + (j + i) * c.stride + at, sum[i]);
      }
      for (; j <= c.width; ++j) {
        Vector<Real> sum = broadcast<Real>(Real(0));
        for (std::int64_t t = begin; t < end; ++t) {
          Vector<Real> const d = load(dz + t * c.stride + at);
          sum = j == c.width ? sum + d : fma(d, load(xs + (t + j) * c.stride + at), sum);
        }
        add_to<Real>(c.dweight + j * c.stride + at, sum);
      }
    }
  }
}

template <typename Real>
inline constexpr BackwardKernels kernels = {
    vector_bytes,       silu_time<Real>,     input_time<Real>,        parameters_time<Real>,
    silu_channel<Real>, input_channel<Real>, parameters_channel<Real>};

}  // namespace

extern BackwardKernels const backward_table_double, backward_table_float;
BackwardKernels const backward_table_double = kernels<double>;
BackwardKernels const backward_table_float = kernels<float>;

}  // namespace faltung::causal_conv1d::cpu::FALTUNG_SIMD
