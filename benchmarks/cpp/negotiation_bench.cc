// What agreeing costs: N engines as threads of this process perform a step of 161 known tensors of
// one float each, and a step of one, so that next to nothing but the negotiation is left. A line of
// JSON for each N.
//
//   negotiation_bench [shm|net] [largest N]
//
// shm: all ranks on one host. net: every rank pretends to be a host of its own, over loopback TCP.
// With more ranks than cores the ranks take turns, so a step takes at least N times what it costs
// each, divided by the cores; `cpu` is that cost: CPU seconds of one rank in one step.
//
// Built by benchmarks/cpp/CMakeLists.txt.
#include <sys/resource.h>

#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "rendezvous/memory_store.h"

namespace hvdlite {
namespace {

using engine::Engine;
using engine::HandlePtr;
using engine::Submission;

constexpr int kTensors = 161;

[[noreturn]] void Die(const Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}
void Check(const Status& status) {
  if (!status.ok()) Die(status);
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Submission Allreduce(const std::string& name, float* value) {
  TensorView view;
  view.data = value;
  view.dtype = DType::kFloat32;
  view.shape = {1};
  Submission s;
  s.request.kind = OpKind::kAllreduce;
  s.request.op = ReduceOp::kSum;
  s.request.name = name;
  s.request.dtype = view.dtype;
  s.request.shape = view.shape;
  s.input = view;
  s.output = view;
  return s;
}

// Submits `tensors` operations and waits for all of them.
void Step(Engine* engine, int tensors, std::vector<float>* values) {
  std::vector<HandlePtr> handles(static_cast<size_t>(tensors));
  for (int i = 0; i < tensors; ++i) {
    (*values)[static_cast<size_t>(i)] = 0;
    const bool waits = tensors == 1;
    Check(engine->Submit(
        0, Allreduce("gradient." + std::to_string(i), &(*values)[static_cast<size_t>(i)]), waits,
        &handles[static_cast<size_t>(i)]));
  }
  for (const HandlePtr& handle : handles) {
    while (!engine->Wait(*handle, 100 * kMillisecond)) {
    }
    Check(handle->status());
  }
}

struct Cost {
  double seconds = 0;  // one step
  double cpu = 0;      // of one rank, in one step
};

// Every rank calls it; the answer is rank 0's.
template <typename Meet>
Cost Measure(Engine* engine, int tensors, int steps, Meet* meet) {
  std::vector<float> values(kTensors);
  for (int i = 0; i < 5; ++i) Step(engine, tensors, &values);
  meet->arrive_and_wait();
  const double cpu = CpuSeconds();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) Step(engine, tensors, &values);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  meet->arrive_and_wait();
  return {took.count() / steps, (CpuSeconds() - cpu) / steps / engine->size()};
}

void Run(const std::string& communicator, int ranks) {
  rendezvous::MemoryStore store;
  std::barrier meet(ranks);
  Cost one, list;
  const int steps = std::max(10, 2000 / ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      engine::EngineOptions options;
      options.rank = rank;
      options.size = ranks;
      options.store_prefix = "job/";
      options.config.cpu_operations = communicator;
      options.config.start_timeout_seconds = 120;
      options.config.heartbeat_seconds = 0;
      std::unique_ptr<Engine> engine;
      Check(Engine::Start(options, &store, &engine));
      const Cost o = Measure(engine.get(), 1, steps, &meet);
      const Cost l = Measure(engine.get(), kTensors, std::max(10, steps / 4), &meet);
      if (rank == 0) one = o, list = l;
      engine->Shutdown(Deadline::AfterSeconds(60));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf(
      "{\"ranks\": %d, \"one\": %.3g, \"one_cpu\": %.3g, \"list\": %.3g, \"list_cpu\": %.3g}\n",
      ranks, one.seconds, one.cpu, list.seconds, list.cpu);
  std::fflush(stdout);
}

}  // namespace
}  // namespace hvdlite

int main(int argc, char** argv) {
  const std::string communicator = argc > 1 ? argv[1] : "shm";
  const int largest = argc > 2 ? std::atoi(argv[2]) : 256;
  setpriority(PRIO_PROCESS, 0, -18);
  for (int ranks = 2; ranks <= largest; ranks *= 2) hvdlite::Run(communicator, ranks);
}
