// Gradients and tensors in shared memory, for hvdlite/adapter/pool.py, core/arrays/ops.py and
// torch/memory.py.
#include <memory>
#include <string>
#include <tuple>

#include "bindings/bindings.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

void Patch(const std::string& module, const std::string& function, const std::string& gate,
           int32_t outside) {
  const hvdlite_pool_allocator allocator = {module.c_str(), function.c_str(), gate.c_str(),
                                            outside};
  ThrowIfError(hvdlite_pool_patch(&allocator));
}

std::tuple<uint64_t, uint64_t, uint64_t, uint64_t> Stats() {
  hvdlite_pool_counters counters{};
  hvdlite_pool_stats(&counters);
  return {counters.hits, counters.misses, counters.live, counters.bytes};
}

// Memory that ranks share, as a buffer. Freed with the last array or tensor that refers to it.
class Block {
 public:
  Block(void* memory, int64_t bytes) : memory_(memory), bytes_(bytes) {}
  ~Block() { hvdlite_pool_free(memory_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  py::buffer_info Buffer() const { return py::buffer_info(static_cast<uint8_t*>(memory_), bytes_); }

 private:
  void* const memory_;
  const int64_t bytes_;
};

std::unique_ptr<Block> Allocate(int64_t bytes) {
  void* const memory = hvdlite_pool_allocate(bytes);
  return memory == nullptr ? nullptr : std::make_unique<Block>(memory, bytes);
}

}  // namespace

void BindPool(py::module_& module) {
  module.def("pool_patch", &Patch, py::arg("module"), py::arg("function"), py::arg("gate"),
             py::arg("outside"),
             "Has a framework's library ask the pool first. NotImplementedError: why it cannot.");
  module.def("pool_expect", &hvdlite_pool_expect, py::arg("bytes"), py::arg("gradients"));
  module.def("pool_arm", [](bool on) { hvdlite_pool_arm(on ? 1 : 0); }, py::arg("on"));
  module.def("pool_take_all", [](bool on) { hvdlite_pool_take_all(on ? 1 : 0); }, py::arg("on"));
  module.def(
      "pool_offset",
      [](uintptr_t address) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): Python tells pointers as numbers
        return hvdlite_pool_offset(reinterpret_cast<const void*>(address));
      },
      py::arg("address"), "Where the memory lies in the pool; -1: elsewhere.");
  module.def("pool_stats", &Stats, "Hits, misses, live blocks, bytes of all blocks.");
  py::class_<Block>(module, "PoolBlock", py::buffer_protocol()).def_buffer(&Block::Buffer);
  module.def("pool_allocate", &Allocate, py::arg("bytes"), py::call_guard<py::gil_scoped_release>(),
             "None: no rank of this host shares it.");
}

}  // namespace hvdlite::bindings
