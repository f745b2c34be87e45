// What the machine is like just now: for each line read, one line of JSON.
//   core_to_core_ns   one way between two threads that spin on a shared line (the median of several
//                     series)
//   wake_us           one way between two threads, each on its core, that sleep in futex(2) (a
//                     halted core takes longer to come back)
//   memcpy_cached     GB/s copying 256 KiB again and again
//   memcpy_large      GB/s copying 64 MiB
//
//   g++ -O2 -pthread probe.cc -o probe
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void StayOn(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  pthread_setaffinity_np(pthread_self(), sizeof cores,
                         &cores);  // where there is no such core, anywhere
}

double CoreToCore() {
  constexpr int kSeries = 9, kTrips = 2000;
  alignas(64) static std::atomic<int> ball;
  ball = 0;
  std::thread other([] {
    StayOn(1);
    for (int i = 0; i < kSeries * kTrips; ++i) {
      while (ball.load(std::memory_order_acquire) != 2 * i + 1) {
      }
      ball.store(2 * i + 2, std::memory_order_release);
    }
  });
  std::vector<double> series;
  for (int s = 0, i = 0; s < kSeries; ++s) {
    const auto start = Clock::now();
    for (int trip = 0; trip < kTrips; ++trip, ++i) {
      ball.store(2 * i + 1, std::memory_order_release);
      while (ball.load(std::memory_order_acquire) != 2 * i + 2) {
      }
    }
    series.push_back(Seconds(start) / kTrips / 2);
  }
  other.join();
  return Median(series);
}

double Wake() {
  constexpr int kSeries = 9, kTrips = 100;
  static std::atomic<int> ball;
  ball = 0;
  const auto pass = [](int value) {
    ball.store(value);
    syscall(SYS_futex, &ball, FUTEX_WAKE_PRIVATE, 2, nullptr, nullptr, 0);
  };
  const auto wait = [](int value) {
    for (int seen; (seen = ball.load()) != value;)
      syscall(SYS_futex, &ball, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
  };
  std::thread other([&] {
    StayOn(1);
    for (int i = 0; i < kSeries * kTrips; ++i) {
      wait(2 * i + 1);
      pass(2 * i + 2);
    }
  });
  std::vector<double> series;
  for (int s = 0, i = 0; s < kSeries; ++s) {
    const auto start = Clock::now();
    for (int trip = 0; trip < kTrips; ++trip, ++i) {
      pass(2 * i + 1);
      wait(2 * i + 2);
    }
    series.push_back(Seconds(start) / kTrips / 2);
  }
  other.join();
  return Median(series);
}

double Copy(std::vector<char>* to, const std::vector<char>& from, size_t bytes, int times) {
  std::vector<double> rates;
  for (int i = 0; i < times; ++i) {
    const auto start = Clock::now();
    std::memcpy(to->data(), from.data(), bytes);
    asm volatile("" : : "r"(to->data()) : "memory");
    rates.push_back(static_cast<double>(bytes) / Seconds(start) / 1e9);
  }
  return Median(rates);
}

}  // namespace

int main() {
  StayOn(0);
  setpriority(PRIO_PROCESS, 0, -18);
  const size_t large = size_t{64} << 20;
  std::vector<char> from(large, 1), to(large, 2);
  for (int c; (c = std::getchar()) != EOF;) {
    if (c != '\n') continue;
    std::printf(
        "{\"core_to_core_ns\": %.1f, \"wake_us\": %.2f, \"memcpy_cached\": %.1f, \"memcpy_large\": "
        "%.1f}\n",
        CoreToCore() * 1e9, Wake() * 1e6, Copy(&to, from, 256 << 10, 200),
        Copy(&to, from, large, 3));
    std::fflush(stdout);
  }
}
