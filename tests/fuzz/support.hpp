// What fuzz targets share: bytes as a source of choices, memory between inaccessible pages, tensors with random strides
// over it. A target defines LLVMFuzzerTestOneInput; libFuzzer or driver.cpp calls it.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/dispatch.hpp"
#include "faltung/tensor.hpp"

namespace faltung::fuzz {

// Counts for driver.cpp's summary: calls by status.
inline long statuses[6] = {};

#define FUZZ_CHECK(condition, ...)                                         \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
      std::fprintf(stderr, __VA_ARGS__);                                   \
      std::fputc('\n', stderr);                                            \
      std::abort();                                                        \
    }                                                                      \
  } while (0)

// Choices read off the input; zeros when it is used up.
class Bytes {
 public:
  Bytes(std::uint8_t const* data, std::size_t size) : data_(data), size_(size) {}
  std::uint8_t byte() { return at_ < size_ ? data_[at_++] : 0; }
  std::int64_t below(std::int64_t bound) { return byte() % bound; }
  bool one_in(int n) { return byte() % n == 1 % n; }
  template <typename T>
  T raw() {
    T value;
    std::uint8_t bytes[sizeof(T)];
    for (auto& b : bytes) b = byte();
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  // Extents and strides where arithmetic breaks.
  std::int64_t wild() {
    constexpr std::int64_t values[] = {-1,
                                       0,
                                       1,
                                       255,
                                       65536,
                                       INT32_MAX,
                                       std::int64_t(INT32_MAX) + 1,
                                       std::int64_t(1) << 40,
                                       std::int64_t(1) << 61,
                                       INT64_MAX,
                                       INT64_MIN,
                                       INT64_MIN + 1,
                                       -65536};
    auto const choice = below(std::int64_t(std::size(values)) + 2);
    return choice < std::int64_t(std::size(values)) ? values[choice]
           : choice % 2                             ? raw<std::int64_t>()
                                                    : raw<std::int8_t>();
  }
  bool done() const { return at_ >= size_; }

 private:
  std::uint8_t const* data_;
  std::size_t size_, at_ = 0;
};

// Bytes directly before an inaccessible page or directly after one.
class Guarded {
 public:
  Guarded(std::size_t bytes, bool at_end, std::size_t alignment = 1) : bytes_(bytes) {
    auto const page = std::size_t(sysconf(_SC_PAGESIZE));
    inner_ = (bytes + page - 1) / page * page;
    whole_ = static_cast<unsigned char*>(
        mmap(nullptr, inner_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    FUZZ_CHECK(whole_ != MAP_FAILED, "no address space for %zu bytes", inner_);
    size_ = inner_ + 2 * page;
    if (inner_) FUZZ_CHECK(mprotect(whole_ + page, inner_, PROT_READ | PROT_WRITE) == 0, "mprotect failed");
    data_ = whole_ + page + (at_end ? (inner_ - bytes) / alignment * alignment : 0);
    std::memset(data_, 0xff, bytes);
  }
  ~Guarded() { munmap(whole_, size_); }
  Guarded(Guarded const&) = delete;
  Guarded& operator=(Guarded const&) = delete;
  unsigned char* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  std::vector<unsigned char> copy() const { return {data_, data_ + bytes_}; }

 private:
  unsigned char* whole_;
  unsigned char* data_;
  std::size_t bytes_, inner_, size_;
};

// Row-major walk over the elements of a small tensor.
template <typename Body>
void for_each_element(Tensor const& t, Body&& body) {
  std::int64_t count = 1;
  for (int i = 0; i < t.rank; ++i) count *= t.shape[i];
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t at = 0, rest = n;
    for (int i = t.rank; i-- > 0; rest /= t.shape[i]) at += rest % t.shape[i] * t.strides[i];
    body(at);
  }
}

// A tensor of an argument list: its descriptor may be nonsense; where it is not, memory of exactly its span lies behind
// it.
class Argument {
 public:
  Tensor tensor = {};
  bool null = false;  // the call gets a null pointer to the descriptor

  // Random strides over the shape: any order of the axes, gaps, signs, zeros where `zeros`.
  void choose_strides(Bytes& in, bool zeros) {
    int order[FALTUNG_MAX_RANK];
    std::iota(order, order + tensor.rank, 0);
    for (int i = tensor.rank; i-- > 1;)
      if (in.one_in(3)) std::swap(order[i], order[in.below(i + 1)]);
    std::int64_t stride = in.one_in(6) ? 1 + in.below(3) : 1;
    for (int n = tensor.rank; n-- > 0;) {
      int const axis = order[n];
      tensor.strides[axis] = stride;
      stride *= std::max<std::int64_t>(tensor.shape[axis], 1);
      if (in.one_in(6)) stride += in.below(5);
      if (in.one_in(7)) tensor.strides[axis] = -tensor.strides[axis];
      if (zeros && in.one_in(9)) tensor.strides[axis] = 0;
    }
  }

  // Gives the tensor memory; NULL where the descriptor has no span or one over 1 MiB.
  void allocate(Bytes& in) {
    tensor.data = nullptr;
    auto const element =
        is_floating(dtype()) || dtype() == FALTUNG_I32 || dtype() == FALTUNG_I64 ? size_of(dtype()) : 0;
    if (!element || tensor.rank < 0 || tensor.rank > FALTUNG_MAX_RANK) return;
    __int128 low = 0, high = 0;
    __int128 count = 1;
    for (int i = 0; i < tensor.rank; ++i) {
      if (tensor.shape[i] <= 0 || tensor.shape[i] > 1 << 20) return;
      count *= tensor.shape[i];
      auto const reach = __int128(tensor.shape[i] - 1) * tensor.strides[i];
      (reach < 0 ? low : high) += reach;
      if (high - low > 1 << 17 || count > 1 << 17) return;
    }
    memory_ = std::make_unique<Guarded>(std::size_t((high - low + 1) * element), in.one_in(2));
    tensor.data = memory_->data() + std::int64_t(-low) * element;
    if (in.one_in(16)) tensor.data = nullptr;
  }

  // Indices from -2 to `last` + 2: mostly ascending, as offsets are, sometimes anything.
  void fill_indices(Bytes& in, std::int64_t last) {
    if (!tensor.data || is_floating(dtype()) || dtype() > FALTUNG_I64) return;
    std::int64_t value = in.one_in(8) ? -2 : 0;
    bool const ascending = !in.one_in(4);
    for_each_element(tensor, [&](std::int64_t at) {
      if (dtype() == FALTUNG_I32) static_cast<std::int32_t*>(tensor.data)[at] = std::int32_t(value);
      if (dtype() == FALTUNG_I64) static_cast<std::int64_t*>(tensor.data)[at] = value;
      if (ascending)
        value = std::min(value + in.below(4), last + (in.one_in(16) ? 2 : 0));
      else
        value = in.one_in(20) ? in.wild() : in.below(last + 5) - 2;
    });
  }

  void fill(Bytes& in) {
    if (!tensor.data || !is_floating(dtype())) return;
    std::uint64_t state = in.raw<std::uint16_t>();
    double const mean = in.one_in(5) ? 100 : 0;
    finite_ = !in.one_in(12);
    visit_dtype(dtype(), [&]<typename T> {
      for_each_element(tensor, [&](std::int64_t at) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        static_cast<T*>(tensor.data)[at] = round_to<T>(mean + double(std::int64_t(state >> 11)) * 0x1p-52 - 1);
      });
      if (!finite_)
        for_each_element(tensor, [&, n = 0](std::int64_t at) mutable {
          if (n++ == 0) static_cast<T*>(tensor.data)[at] = round_to<T>(state % 2 ? HUGE_VAL : std::nan(""));
        });
    });
  }

  std::vector<double> values() const {
    std::vector<double> result;
    visit_dtype(dtype(), [&]<typename T> {
      for_each_element(
          tensor, [&](std::int64_t at) { result.push_back(double(to_float(static_cast<T const*>(tensor.data)[at]))); });
    });
    return result;
  }

  // Whether elements share memory: legal for an output, with unspecified values.
  bool overlaps() const {
    std::vector<std::int64_t> places;
    for_each_element(tensor, [&](std::int64_t at) { places.push_back(at); });
    std::sort(places.begin(), places.end());
    return std::adjacent_find(places.begin(), places.end()) != places.end();
  }

  // Bytes that belong to no element still hold the poison.
  bool gaps_intact() const {
    if (!memory_ || !tensor.data) return true;
    std::vector<bool> element(memory_->size());
    auto const size = size_of(dtype());
    for_each_element(tensor, [&](std::int64_t at) {
      auto const first = static_cast<unsigned char*>(tensor.data) - memory_->data() + at * size;
      for (std::int64_t n = 0; n < size; ++n) element[std::size_t(first + n)] = true;
    });
    for (std::size_t n = 0; n < element.size(); ++n)
      if (!element[n] && memory_->data()[n] != 0xff) return false;
    return true;
  }
  std::vector<unsigned char> snapshot() const { return memory_ ? memory_->copy() : std::vector<unsigned char>{}; }
  void poison() {
    if (memory_) std::memset(memory_->data(), 0xff, memory_->size());
  }
  void restore(std::vector<unsigned char> const& bytes) {
    if (memory_) std::memcpy(memory_->data(), bytes.data(), bytes.size());
  }
  bool finite() const { return finite_; }
  Tensor* pointer() { return null ? nullptr : &tensor; }
  Dtype dtype() const {  // also of values that the enum does not have
    int raw;
    std::memcpy(&raw, &tensor.dtype, sizeof raw);
    return raw >= 0 && raw <= FALTUNG_I64 ? Dtype(raw) : Dtype(7);
  }

 private:
  std::unique_ptr<Guarded> memory_;
  bool finite_ = true;
};

inline void spoil(Bytes& in, void* enumerator) {
  int const value = in.one_in(2) ? in.raw<std::int32_t>() : int(in.below(16)) - 4;
  std::memcpy(enumerator, &value, sizeof value);
}

}  // namespace faltung::fuzz
