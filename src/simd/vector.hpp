// The vector vocabulary of the CPU kernels: Vector<Real> is one register of the target, arithmetic by its operators.
// Included by *.simd.cpp only, which are compiled once per target in a namespace of that name (FALTUNG_SIMD), without
// contraction of a * b + c: where a fused multiply-add is meant, fma() says so.
#pragma once
#include <cstdint>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "core/dtype.hpp"

namespace faltung::simd::FALTUNG_SIMD {

#if defined(FALTUNG_SIMD_avx512)
inline constexpr int vector_bytes = 64;
inline constexpr int registers = 32;
#elif defined(FALTUNG_SIMD_avx2)
inline constexpr int vector_bytes = 32;
inline constexpr int registers = 16;
#else
inline constexpr int vector_bytes = 16;
#if defined(__aarch64__)
inline constexpr int registers = 32;
#else
inline constexpr int registers = 16;
#endif
#endif

template <typename Element, int Count>
struct VectorType {
  typedef Element type __attribute__((vector_size(Count * sizeof(Element))));
};
template <typename Element, int Count>
struct VectorType<Element const, Count> : VectorType<Element, Count> {};

// float or double; a register of it.
template <typename Real>
inline constexpr int lanes = vector_bytes / int(sizeof(Real));
template <typename Real>
using Vector = typename VectorType<Real, lanes<Real>>::type;

template <typename V>
FALTUNG_INLINE V load_as(void const* from) {  // any alignment
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

template <typename Real>
FALTUNG_INLINE Vector<Real> load(Real const* from) {
  return load_as<Vector<Real>>(from);
}

template <typename V>
FALTUNG_INLINE void store(void* to, V const& v) {
  __builtin_memcpy(to, &v, sizeof v);
}

namespace detail {
template <typename Real, int... Lane>
FALTUNG_INLINE Vector<Real> broadcast(Real value, std::integer_sequence<int, Lane...>) {
  return Vector<Real>{((void)Lane, value)...};
}
}  // namespace detail

template <typename Real>
FALTUNG_INLINE Vector<Real> broadcast(Real value) {
  return detail::broadcast<Real>(value, std::make_integer_sequence<int, lanes<Real>>());
}

// a * b + c in one rounding where the target has it (all but SSE2), else in two: the same everywhere in one process.
FALTUNG_INLINE Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) {
#if defined(FALTUNG_SIMD_avx512)
  return Vector<float>(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
#elif defined(FALTUNG_SIMD_avx2)
  return Vector<float>(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
#elif defined(__aarch64__)
  return Vector<float>(vfmaq_f32(float32x4_t(c), float32x4_t(a), float32x4_t(b)));
#else
  return a * b + c;
#endif
}
FALTUNG_INLINE Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
#if defined(FALTUNG_SIMD_avx512)
  return Vector<double>(_mm512_fmadd_pd(__m512d(a), __m512d(b), __m512d(c)));
#elif defined(FALTUNG_SIMD_avx2)
  return Vector<double>(_mm256_fmadd_pd(__m256d(a), __m256d(b), __m256d(c)));
#elif defined(__aarch64__)
  return Vector<double>(vfmaq_f64(float64x2_t(c), float64x2_t(a), float64x2_t(b)));
#else
  return a * b + c;
#endif
}
FALTUNG_INLINE float fma(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
FALTUNG_INLINE double fma(double a, double b, double c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

// c - a * b
template <typename V>
FALTUNG_INLINE V negated_fma(V a, V b, V c) {
  return fma(-a, b, c);
}

namespace detail {
// Lane l of the first: a where bit `Step` of l is clear, else b shifted up by Step; of the second: the other two
// quarters.
template <int Step, typename V, int... Lane>
FALTUNG_INLINE void exchange(V& a, V& b, std::integer_sequence<int, Lane...>) {
  constexpr int count = sizeof...(Lane);
  V const first = __builtin_shufflevector(a, b, ((Lane & Step) ? count + Lane - Step : Lane)...);
  V const second = __builtin_shufflevector(a, b, ((Lane & Step) ? count + Lane : Lane + Step)...);
  a = first;
  b = second;
}
}  // namespace detail

// Transposes a square of lanes<Real> registers in place.
template <typename Real>
FALTUNG_INLINE void transpose(Vector<Real> (&rows)[lanes<Real>]) {
  constexpr int n = lanes<Real>;
  constexpr auto all = std::make_integer_sequence<int, n>();
  auto const step = [&]<int Step>() __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i)
      if (!(i & Step)) detail::exchange<Step>(rows[i], rows[i + Step], all);
  };
  if constexpr (n >= 16) step.template operator()<8>();
  if constexpr (n >= 8) step.template operator()<4>();
  if constexpr (n >= 4) step.template operator()<2>();
  step.template operator()<1>();
}

// ---- conversions: lanes<Real> elements of a storage type to and from a register -----------------------------------

FALTUNG_INLINE Vector<float> load_converted(float const* from) { return load(from); }
FALTUNG_INLINE Vector<double> load_converted(double const* from) { return load(from); }

FALTUNG_INLINE Vector<float> load_converted(BFloat16 const* from) {
#if defined(FALTUNG_SIMD_avx512)  // the compiler splits the generic conversion in two halves
  return Vector<float>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_as<__m256i>(from)), 16));
#elif defined(FALTUNG_SIMD_avx2)
  return Vector<float>(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_as<__m128i>(from)), 16));
#else
  constexpr int n = lanes<float>;
  using Half = typename VectorType<std::uint16_t, n>::type;
  using Word = typename VectorType<std::uint32_t, n>::type;
  return Vector<float>(__builtin_convertvector(load_as<Half>(from), Word) << 16);
#endif
}

FALTUNG_INLINE Vector<float> load_converted(Float16 const* from) {
#if defined(FALTUNG_SIMD_avx512)
  return Vector<float>(_mm512_cvtph_ps(load_as<__m256i>(from)));
#elif defined(FALTUNG_SIMD_avx2)
  return Vector<float>(_mm256_cvtph_ps(load_as<__m128i>(from)));
#elif defined(__aarch64__)
  return Vector<float>(vcvt_f32_f16(load_as<float16x4_t>(from)));
#else
  Vector<float> v;
  for (int i = 0; i < lanes<float>; ++i) v[i] = to_float(from[i]);
  return v;
#endif
}

FALTUNG_INLINE void store_converted(float* to, Vector<float> v) { store(to, v); }
FALTUNG_INLINE void store_converted(double* to, Vector<double> v) { store(to, v); }

#if defined(FALTUNG_SIMD_avx512)
namespace detail {
// The upper half of each element is v as bf16, to the nearest, ties to even: 0x7fff more, and one more where the last
// bit that stays is set. Wrong for a NaN.
FALTUNG_INLINE __m512i rounded_to_bf16(Vector<float> v) {
  __m512i const bits = __m512i(v), up = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
  __mmask16 const odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  return _mm512_mask_sub_epi32(up, odd, up, _mm512_set1_epi32(-1));
}
typedef short Words __attribute__((vector_size(64)));
FALTUNG_INLINE auto upper_halves(__m512i v) {
  Words const words = Words(v);
  return __builtin_shufflevector(words, words, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
}  // namespace detail
#endif

FALTUNG_INLINE void store_converted(BFloat16* to, Vector<float> v) {
#if defined(FALTUNG_SIMD_avx512)
  __mmask16 const is_nan = _mm512_cmp_ps_mask(__m512(v), __m512(v), _CMP_UNORD_Q);
  store(to, detail::upper_halves(
                _mm512_mask_or_epi32(detail::rounded_to_bf16(v), is_nan, __m512i(v), _mm512_set1_epi32(0x400000))));
#else
  constexpr int n = lanes<float>;
  using Half = typename VectorType<std::uint16_t, n>::type;
  using Word = typename VectorType<std::uint32_t, n>::type;
  Word const bits = Word(v), rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, quiet = (bits >> 16) | 0x40u;
  auto const is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  store(to, __builtin_convertvector(is_nan ? quiet : rounded, Half));
#endif
}

FALTUNG_INLINE void store_converted(Float16* to, Vector<float> v) {
#if defined(FALTUNG_SIMD_avx512)
  store(to, _mm512_cvtps_ph(__m512(v), _MM_FROUND_TO_NEAREST_INT));
#elif defined(FALTUNG_SIMD_avx2)
  store(to, _mm256_cvtps_ph(__m256(v), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__aarch64__)
  store(to, vcvt_f16_f32(float32x4_t(v)));
#else
  for (int i = 0; i < lanes<float>; ++i) to[i] = from_float<Float16>(v[i]);
#endif
}

// Registers in step, `step` elements apart.
template <typename Storage, typename V, int Count>
FALTUNG_INLINE void store_in_step(Storage* to, std::int64_t step, V const (&v)[Count]) {
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) store_converted(to + i * step, v[i]);
}
#if defined(FALTUNG_SIMD_avx512)
// One test for NaN serves all of them.
template <int Count>
FALTUNG_INLINE void store_in_step(BFloat16* to, std::int64_t step, Vector<float> const (&v)[Count]) {
  __mmask16 any = 0;
#pragma GCC unroll 16
  for (int i = 0; i < Count; i += 2)
    any |= _mm512_cmp_ps_mask(__m512(v[i]), __m512(v[i + 1 < Count ? i + 1 : i]), _CMP_UNORD_Q);
  if (__builtin_expect(any != 0, 0)) {
    for (int i = 0; i < Count; ++i) store_converted(to + i * step, v[i]);
    return;
  }
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) store(to + i * step, detail::upper_halves(detail::rounded_to_bf16(v[i])));
}
#endif

// The first `count` (0 .. lanes) elements; the other lanes are 0.
template <typename Real, typename Storage>
FALTUNG_INLINE Vector<Real> load_partial(Storage const* from, int count) {
  alignas(vector_bytes) Storage buffer[lanes<Real>] = {};
  for (int i = 0; i < count; ++i) buffer[i] = from[i];
  return load_converted(buffer);
}

template <typename Real, typename Storage>
FALTUNG_INLINE void store_partial(Storage* to, Vector<Real> v, int count) {
  alignas(vector_bytes) Storage buffer[lanes<Real>];
  store_converted(buffer, v);
  for (int i = 0; i < count; ++i) to[i] = buffer[i];
}

// One element, in the same arithmetic as a lane.
template <typename Real, typename Storage>
FALTUNG_INLINE Real load_one(Storage const* from) {
  return Real(to_float(*from));
}
template <typename Storage>
FALTUNG_INLINE void store_one(Storage* to, float value) {
  *to = from_float<Storage>(value);
}
FALTUNG_INLINE void store_one(double* to, double value) { *to = value; }

}  // namespace faltung::simd::FALTUNG_SIMD
