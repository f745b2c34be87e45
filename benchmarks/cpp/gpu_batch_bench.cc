// What does hvdlite add to NCCL, on one rank? Each line read names a list of tensors:
//
//   NAME DTYPE ELEMENTS ELEMENTS ...
//
// and is answered with a line of JSON, in microseconds: `hvdlite`, the list handed over as a group
// and followed by the stream that it came from; `nccl`, one call of NCCL's for as many bytes in one
// buffer; `nccl_group`, a group of NCCL's with a call for each tensor. Each is many of them behind
// one another, the device's work included. Exit code 3: there is no GPU here, or no NCCL.
//
//   gpu_batch_bench NCCL [driver]     paths as dlopen takes them; the driver's default is
//                                     libcuda.so.1
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "comm/nccl/library.h"
#include "engine/engine.h"
#include "gpu_lists.h"

namespace hvdlite {
namespace {

using bench::Check;
using bench::Die;
using bench::List;

// NCCL by itself, on the stream of `gpu`.
class Nccl {
 public:
  Nccl(std::shared_ptr<const comm::nccl::Library> library, device::Gpu* gpu)
      : nccl_(std::move(library)), gpu_(gpu) {
    const device::Gpu::Current current(*gpu_);
    comm::nccl::UniqueId id;
    comm::nccl::Config config;
    config.blocking = 1;
    Check(nccl_->Check(nccl_->GetUniqueId(&id), "making an id", nullptr));
    Check(nccl_->Check(nccl_->CommInitRankConfig(&comm_, 1, id, 0, &config),
                       "making a communicator", nullptr));
  }
  ~Nccl() {
    const device::Gpu::Current current(*gpu_);
    (void)nccl_->CommFinalize(comm_);
    (void)nccl_->CommDestroy(comm_);
  }
  Nccl(const Nccl&) = delete;

  void Sum(const void* from, void* to, size_t bytes) const {
    const device::Gpu::Current current(*gpu_);
    const auto result = nccl_->AllReduce(from, to, bytes, comm::nccl::kUint8, comm::nccl::kSum,
                                         comm_, gpu_->stream());
    Check(nccl_->Check(result, "an allreduce", comm_));
  }
  void GroupStart() const { Check(nccl_->Check(nccl_->GroupStart(), "beginning a group", comm_)); }
  void GroupEnd() const {
    const device::Gpu::Current current(*gpu_);
    Check(nccl_->Check(nccl_->GroupEnd(), "a group", comm_));
  }

 private:
  const std::shared_ptr<const comm::nccl::Library> nccl_;
  device::Gpu* const gpu_;
  comm::nccl::Comm comm_ = nullptr;
};

engine::Submission Allreduce(const List& list, size_t i, char* data, device::Gpu* gpu) {
  TensorView view;
  view.data = data;
  view.dtype = list.dtype;
  view.shape = {list.elements[i]};
  view.device = {DeviceKind::kCuda, gpu->ordinal()};
  engine::Submission s;
  s.request.kind = OpKind::kAllreduce;
  s.request.op = ReduceOp::kSum;
  s.request.name = list.name + "." + std::to_string(i);
  s.request.dtype = view.dtype;
  s.request.shape = view.shape;
  s.request.device = DeviceKind::kCuda;
  s.request.group = 1 + std::hash<std::string>()(list.name);
  s.request.group_size = static_cast<uint32_t>(list.elements.size());
  s.input = s.output = view;
  s.producer = gpu->stream();
  return s;
}

void Hvdlite(engine::Engine* engine, const List& list, char* tensors, device::Gpu* gpu) {
  std::vector<engine::Submission> group;
  for (size_t i = 0; i < list.elements.size(); ++i) {
    group.push_back(Allreduce(list, i, tensors, gpu));
    tensors += bench::RoomOf(list, i);
  }
  std::vector<engine::HandlePtr> handles;
  Check(engine->SubmitGroup(0, std::move(group), &handles));
  for (const engine::HandlePtr& handle : handles) {
    while (!engine->Wait(*handle, 100 * kMillisecond)) {
    }
    Check(handle->status());
    if (handle->pending != nullptr) Check(handle->pending->MakeWait(gpu->stream()));
  }
}

void Measure(engine::Engine* engine, const Nccl& nccl, device::Gpu* gpu, const List& list) {
  size_t room = 0;
  for (size_t i = 0; i < list.elements.size(); ++i) room += bench::RoomOf(list, i);
  std::unique_ptr<device::Gpu::Buffer> from, to;
  Check(gpu->OnDevice(room, &from));
  Check(gpu->OnDevice(room, &to));
  Check(gpu->Zero(from->data(), room));
  bench::Synchronize(gpu);
  char* const in = static_cast<char*>(from->data());
  char* const out = static_cast<char*>(to->data());
  const auto microseconds = [&](const std::function<void(size_t)>& put) {
    return 1e6 * bench::SecondsOf(put, 1, [&] { bench::Synchronize(gpu); });
  };
  const double ours = microseconds([&](size_t) { Hvdlite(engine, list, in, gpu); });
  const double one = microseconds([&](size_t) { nccl.Sum(in, out, list.bytes()); });
  const double group = microseconds([&](size_t) {
    nccl.GroupStart();
    size_t at = 0;
    for (size_t i = 0; i < list.elements.size(); ++i) {
      nccl.Sum(in + at, out + at, list.bytes(i));
      at += bench::RoomOf(list, i);
    }
    nccl.GroupEnd();
  });
  std::printf(
      R"({"name": "%s", "tensors": %zu, "bytes": %zu, "hvdlite": %.2f, "nccl": %.2f, "nccl_group": %.2f})"
      "\n",
      list.name.c_str(), list.elements.size(), list.bytes(), ours, one, group);
  std::fflush(stdout);
}

int Main(const std::string& nccl_library, const std::string& driver_library) {
  std::shared_ptr<const device::Driver> driver;
  std::shared_ptr<const comm::nccl::Library> library;
  Status status = device::LoadDriver(driver_library, &driver);
  if (status.ok()) status = comm::nccl::Load({nccl_library, ""}, &library);
  if (!status.ok()) Die(status, bench::kNoGpu);
  std::shared_ptr<device::Gpu> gpu;
  Check(device::Gpu::Open(driver, 0, &gpu));
  engine::EngineOptions options;
  options.config.cuda_library = driver_library;
  options.config.nccl_library = nccl_library;
  options.config.gpu_operations = "nccl";
  std::unique_ptr<engine::Engine> engine;
  Check(engine::Engine::Start(options, nullptr, &engine));
  {
    const Nccl nccl(library, gpu.get());
    bench::EachList([&](const List& list) { Measure(engine.get(), nccl, gpu.get(), list); });
  }
  Check(engine->Shutdown(Deadline::AfterSeconds(30)));
  return 0;
}

}  // namespace
}  // namespace hvdlite

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "gpu_batch_bench NCCL [driver]\n");
    return 2;
  }
  return hvdlite::Main(argv[1], argc > 2 ? argv[2] : "libcuda.so.1");
}
