#include "kernels/reduce.h"

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/reduce.h"

namespace hvdlite::kernels {

void Reduce(const ReduceSpec& spec, void* destination, void* second, const void* const* sources,
            int n, int64_t count) {
  cpu::Reduce(cpu::ActiveTable(), spec, destination, second, sources, n, count);
}

void ReduceToFloat(const ReduceSpec& spec, float* destination, const void* const* sources, int n,
                   int64_t count) {
  cpu::ReduceToFloat(cpu::ActiveTable(), spec, destination, sources, n, count);
}

void RoundFromFloat(DType dtype, void* destination, const float* source, int64_t count) {
  cpu::RoundFromFloat(cpu::ActiveTable(), dtype, destination, source, count);
}

void Scale(DType dtype, void* data, int64_t count, double factor) {
  cpu::Scale(cpu::ActiveTable(), dtype, data, count, factor);
}

void Finish(const ReduceSpec& spec, void* data, int64_t count) {
  cpu::Finish(cpu::ActiveTable(), spec, data, count);
}

const char* SimdName() {
  return cpu::ActiveTable().name;
}

}  // namespace hvdlite::kernels
