// The content of index tensors, checked on the host by the CPU's own rules.
#include <vector>

#include "causal_conv1d/cpu/window.hpp"
#include "causal_conv1d/cuda/launch.hpp"
#include "cuda/device.hpp"

namespace faltung::causal_conv1d::cuda {
namespace {

// An index tensor's elements on the host, side by side.
class OnHost {
 public:
  OnHost(Index const& index, std::int64_t rows, std::int64_t count, Dtype dtype, Runtime const& runtime)
      : view_(index) {
    if (!index.data || rows * count == 0) return;
    auto const size = size_of(dtype);
    memory_.resize(rows * count * size);
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < count; i += index.stride == 1 ? count : 1)
        faltung::cuda::check(
            cudaMemcpyAsync(memory_.data() + (row * count + i) * size,
                            static_cast<std::byte const*>(index.data) + (row * index.batch + i * index.stride) * size,
                            (index.stride == 1 ? count : 1) * size, cudaMemcpyDeviceToHost, stream_of(runtime)),
            "copying an index tensor to the host");
    faltung::cuda::check(cudaStreamSynchronize(stream_of(runtime)), "copying an index tensor to the host");
    view_ = {memory_.data(), 1, count};
  }
  Index const& view() const { return view_; }

 private:
  std::vector<std::byte> memory_;
  Index view_;
};

}  // namespace

void check_cut(Problem const& p, Index const& index, Runtime const& runtime) {
  bool const packed = p.cut == Sequences::packed;
  if (!runtime.check || (!packed && p.cut != Sequences::padded)) return;
  OnHost const host(index, 1, packed ? p.sequences + 1 : p.batch, p.index_dtype, runtime);
  cpu::cut(p, host.view(), true);
}

void check_update(Problem const& p, UpdateArgs const& a) {
  if (!a.runtime.check) return;
  auto const rows = [&](Index const& index, std::int64_t count) {
    return OnHost(index, 1, count, FALTUNG_I32, a.runtime);
  };
  OnHost const source = rows(a.source, p.sequences), destination = rows(a.destination, p.sequences),
               position = rows(a.position, p.sequences), accepted = rows(a.accepted, p.sequences),
               cut = rows(a.cut, p.sequences + 1);
  auto host = a;
  host.source = source.view();
  host.destination = destination.view();
  host.position = position.view();
  host.accepted = accepted.view();
  host.cut = cut.view();
  cpu::check_content(p, host, cpu::cut(p, host.cut, true));
}

}  // namespace faltung::causal_conv1d::cuda
