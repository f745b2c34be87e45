// The floor: what the allreduce of shared memory takes on this machine, with nothing around it.
// Ranks are threads, each on a core of its own where there is one; their tensors are private, what
// they share is staged in chunks: each copies in what the others add up, adds up its own share of
// every chunk, and copies out the others'. No negotiation, no names, no Python, no failures.
//
//   g++ -O2 -pthread floor.cc -o floor
//   floor RANKS        reads lines "BYTES ITERATIONS [fifo]", answers each with the seconds of one
//                      allreduce of float32, and the CPU seconds that it took in all
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kChunk = 256 << 10;
constexpr size_t kSmall = 32 << 10;  // up to here everybody adds up everything
constexpr size_t kLargest = 64 << 20;
constexpr uint64_t kSlots = 4;
constexpr int kLaps = 15;

struct alignas(128) Flag {
  std::atomic<uint64_t> steps{0};
};
struct Member {
  Flag in, mid, out;
  char* slots;
  float* data;
  uint64_t step = 0;
};

std::vector<Member> members;
bool oversubscribed;

void WaitFor(Flag Member::* flag, size_t me, uint64_t steps) {
  for (size_t m = 0; m < members.size(); ++m) {
    while (m != me && (members[m].*flag).steps.load(std::memory_order_acquire) < steps) {
      if (oversubscribed) sched_yield();
    }
  }
}
void Post(Flag* flag, uint64_t steps) {
  flag->steps.store(steps, std::memory_order_release);
}

char* Slot(size_t member, uint64_t step) {
  return members[member].slots + step % kSlots * kChunk;
}

// to = also = the sum of n numbers of all members, mine from `mine` and the others' from their
// slots at byte `at`.
void Sum(size_t me, uint64_t step, float* mine, float* also, size_t at, size_t n) {
  constexpr size_t kBlock = 1024;  // stays in the first cache
  for (size_t i = 0; i < n; i += kBlock) {
    const size_t count = std::min(kBlock, n - i);
    for (size_t m = 0; m < members.size(); ++m) {
      if (m == me) continue;
      const float* theirs = reinterpret_cast<const float*>(Slot(m, step) + at) + i;
      for (size_t k = 0; k < count; ++k) mine[i + k] += theirs[k];
    }
    if (also != nullptr) std::memcpy(also + i, mine + i, count * sizeof(float));
  }
}

void Exchange(size_t me, size_t bytes) {
  Member& my = members[me];
  const uint64_t step = my.step++;
  if (step >= kSlots) WaitFor(&Member::out, me, step + 1 - kSlots);
  std::memcpy(Slot(me, step), my.data, bytes);
  Post(&my.in, step + 1);
  WaitFor(&Member::in, me, step + 1);
  Sum(me, step, my.data, nullptr, 0, bytes / sizeof(float));
  Post(&my.mid, step + 1);
  Post(&my.out, step + 1);
}

void Shares(size_t me, size_t bytes) {
  Member& my = members[me];
  const uint64_t first = my.step, steps = (bytes + kChunk - 1) / kChunk;
  my.step += steps;
  const auto edge = [&](uint64_t step, size_t member) {  // of the member's share, within the chunk
    return std::min(kChunk, bytes - step * kChunk) / 64 * member / members.size() * 64;
  };
  const auto copy = [&](uint64_t step, bool in) {
    for (size_t m = 0; m < members.size(); ++m) {
      if (m == me) continue;
      const size_t begin = edge(step, m), size = edge(step, m + 1) - begin;
      char* data = reinterpret_cast<char*>(my.data) + step * kChunk + begin;
      char* slot = Slot(in ? me : m, first + step) + begin;
      std::memcpy(in ? slot : data, in ? data : slot, size);
    }
  };
  const auto copy_in = [&](uint64_t step) {
    if (first + step >= kSlots) WaitFor(&Member::out, me, first + step + 1 - kSlots);
    copy(step, true);
    Post(&my.in, first + step + 1);
  };
  const auto copy_out = [&](uint64_t step) {
    WaitFor(&Member::mid, me, first + step + 1);
    copy(step, false);
    Post(&my.out, first + step + 1);
  };
  for (uint64_t step = 0; step < steps; ++step) {
    if (step == 0) copy_in(0);
    if (step + 1 < steps) copy_in(step + 1);
    WaitFor(&Member::in, me, first + step + 1);
    const size_t begin = edge(step, me), size = edge(step, me + 1) - begin;
    Sum(me, first + step, my.data + (step * kChunk + begin) / sizeof(float),
        reinterpret_cast<float*>(Slot(me, first + step) + begin), begin, size / sizeof(float));
    Post(&my.mid, first + step + 1);
    if (step > 0) copy_out(step - 1);
  }
  copy_out(steps - 1);
}

void Rank(size_t me, size_t bytes, int iterations, bool fifo, std::vector<double>* laps) {
  if (!oversubscribed) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(me, &cores);
    pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
  }
  const sched_param priority{10};
  if (fifo) pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
  void (*run)(size_t, size_t) = bytes <= kSmall ? Exchange : Shares;
  run(me, bytes);
  for (int lap = 0; lap < kLaps; ++lap) {
    const auto start = Clock::now();
    for (int i = 0; i < iterations; ++i) run(me, bytes);
    if (me == 0)
      laps->push_back(std::chrono::duration<double>(Clock::now() - start).count() / iterations);
  }
}

void* Memory(size_t bytes, int kind) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return memory;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t ranks = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 2;
  oversubscribed = static_cast<long>(ranks) > sysconf(_SC_NPROCESSORS_ONLN);
  setpriority(PRIO_PROCESS, 0, -18);
  // A rank that spins as SCHED_FIFO for this long waits for a thread that has no core.
  const rlimit ten_seconds{10'000'000, 10'000'000};
  setrlimit(RLIMIT_RTTIME, &ten_seconds);
  members = std::vector<Member>(ranks);
  for (Member& member : members) {
    member.slots = static_cast<char*>(Memory(kSlots * kChunk, MAP_SHARED));
    member.data = static_cast<float*>(Memory(kLargest, MAP_PRIVATE));
  }
  size_t bytes;
  int iterations;
  double before = 0;
  for (char line[100]; std::fgets(line, sizeof line, stdin) != nullptr;) {
    if (std::sscanf(line, "%zu %d", &bytes, &iterations) != 2 || bytes > kLargest || iterations < 1)
      return 2;
    const bool fifo = std::strstr(line, "fifo") != nullptr;
    std::vector<double> laps;
    std::vector<std::thread> threads;
    for (size_t me = 0; me < ranks; ++me)
      threads.emplace_back(Rank, me, bytes, iterations, fifo, &laps);
    for (std::thread& thread : threads) thread.join();
    std::sort(laps.begin(), laps.end());
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](timeval t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    const double spent = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    std::printf("%.9f %.6f\n", laps[laps.size() / 2], spent - before);
    before = spent;
    std::fflush(stdout);
  }
}
