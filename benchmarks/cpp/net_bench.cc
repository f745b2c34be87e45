// How fast the net communicator is: ranks as processes over loopback TCP, allreduce of float32, in
// place.
//
//   net_bench [ranks] [algorithm|auto] [piece KiB] [smallest bytes] [largest bytes] [MB/s]
//
// Prints the median, the tenth and the ninetieth percentile of rank 0 in microseconds: without
// check words, then with them, by turns in one run, and the ratio of the medians and of the
// processor's time. MB/s: no connection is faster (SO_MAX_PACING_RATE), as with a network card of
// that speed; 0 is as fast as it goes. Ranks wait as the
// engine does: with a core for each they spin for 50 us, otherwise they yield as long; then they
// sleep in poll(2).
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/net/communicator.h"
#include "cpu_time.h"
#include "transport/checked.h"
#include "transport/tcp/mesh.h"

namespace hvdlite {
namespace {

using comm::Algorithm;

[[noreturn]] void Die(const Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

constexpr Nanos kSpin = 50 * kMicrosecond;

void Wait(comm::Communicator* communicator, comm::Work* work, bool oversubscribed) {
  Nanos idle_since = 0;
  while (true) {
    const comm::Progress progress = work->Advance();
    if (progress == comm::Progress::kDone) return;
    if (progress == comm::Progress::kFailed) Die(work->status());
    if (progress == comm::Progress::kSome) {
      idle_since = 0;
      continue;
    }
    const Nanos now = MonotonicNow();
    if (idle_since == 0) idle_since = now;
    if (now - idle_since < kSpin) {
      if (oversubscribed) sched_yield();
      continue;
    }
    std::vector<pollfd> fds;
    communicator->AddPollFds(&fds);
    poll(fds.data(), fds.size(), 1000);
  }
}

using Links = std::vector<std::unique_ptr<transport::Transport>>;
using Doors = std::vector<std::unique_ptr<transport::tcp::LinkListener>>;

Links Connect(int rank, const Doors& doors, bool checked, unsigned megabytes) {
  std::vector<transport::tcp::MeshPeer> peers;
  for (size_t i = 0; i < doors.size(); ++i)
    peers.push_back({static_cast<int>(i), {doors[i]->endpoint()}});
  std::vector<std::unique_ptr<transport::tcp::Link>> made;
  const Status status = ConnectMesh(checked ? 1 : 0, peers, doors[static_cast<size_t>(rank)].get(),
                                    Deadline::After(30 * kSecond), &made);
  if (!status.ok()) Die(status);
  Links links;
  for (auto& link : made) {
    const uint64_t rate = uint64_t{megabytes} * 1000000;
    if (link != nullptr && rate > 0 &&
        setsockopt(link->fd(), SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate)) != 0) {
      Die(Status::FromErrno("cannot set a rate", errno));
    }
    const bool wrap = checked && link != nullptr;
    links.push_back(wrap ? std::make_unique<transport::Checked>(std::move(link))
                         : Links::value_type(std::move(link)));
  }
  return links;
}

struct Spread {
  explicit Spread(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    median = values[values.size() / 2];
    tenth = values[values.size() / 10];
    ninetieth = values[values.size() * 9 / 10];
  }
  double median, tenth, ninetieth;
};

void Run(int rank, int ranks, const Doors& doors, const comm::net::Options& options,
         size_t smallest, size_t largest, unsigned megabytes) {
  std::vector<Links> links;
  std::vector<std::unique_ptr<comm::net::Communicator>> communicators;
  for (const bool checked : {false, true}) {
    links.push_back(Connect(rank, doors, checked, megabytes));
    std::vector<transport::Transport*> borrowed;
    for (const auto& link : links.back()) borrowed.push_back(link.get());
    communicators.push_back(
        std::make_unique<comm::net::Communicator>(rank, ranks, borrowed, options));
  }

  const bool oversubscribed = ranks > static_cast<int>(std::thread::hardware_concurrency());
  std::vector<float> data(largest / sizeof(float), 0.0f);
  if (rank == 0) {
    std::printf("%10s | %10s %10s %10s %10s | %10s %10s %10s %10s | %7s %7s  %s\n", "bytes",
                "p50 us", "p10", "p90", "cpu", "checked", "p10", "p90", "cpu", "ratio", "of cpu",
                "algorithm");
  }
  for (size_t bytes = smallest; bytes <= largest; bytes *= 4) {
    comm::Batch batch;
    batch.kind = OpKind::kAllreduce;
    batch.dtype = DType::kFloat32;
    batch.pieces = {{data.data(), data.data(), static_cast<int64_t>(bytes / sizeof(float)), {}}};
    comm::Batch barrier;
    const int rounds =
        static_cast<int>(std::clamp<size_t>((size_t{512} << 20) / (bytes + 100000), 7, 1001));
    std::vector<double> micros[2];
    double cpu[2] = {0, 0};
    for (int i = 0; i < 2 * (rounds + 3); ++i) {
      comm::net::Communicator* const communicator = communicators[static_cast<size_t>(i % 2)].get();
      if (i % 8 < 2) Wait(communicator, communicator->Start(barrier).get(), oversubscribed);
      const double cpu_before = CpuMicros();
      const Nanos begin = MonotonicNow();
      Wait(communicator, communicator->Start(batch).get(), oversubscribed);
      if (i < 6) continue;
      cpu[i % 2] += (CpuMicros() - cpu_before) / rounds;
      micros[i % 2].push_back(static_cast<double>(MonotonicNow() - begin) / kMicrosecond);
    }
    if (rank != 0) continue;
    const Spread plain(micros[0]), checked(micros[1]);
    std::printf(
        "%10zu | %10.1f %10.1f %10.1f %10.1f | %10.1f %10.1f %10.1f %10.1f | %7.3f %7.3f  %s\n",
        bytes, plain.median, plain.tenth, plain.ninetieth, cpu[0], checked.median, checked.tenth,
        checked.ninetieth, cpu[1], checked.median / plain.median, cpu[1] / cpu[0],
        communicators[0]->Explain(batch).c_str());
    std::fflush(stdout);
  }
}

int Main(int argc, char** argv) {
  const auto argument = [&](int i, const char* otherwise) {
    return std::string(argc > i ? argv[i] : otherwise);
  };
  const int ranks = std::stoi(argument(1, "2"));
  comm::net::Options options;
  for (int i = 0; i < comm::kAlgorithmCount; ++i) {
    if (Name(static_cast<Algorithm>(i)) == argument(2, "auto"))
      options.force = static_cast<Algorithm>(i);
  }
  options.piece_bytes = std::stoul(argument(3, "128")) << 10;
  const size_t smallest = std::stoul(argument(4, "4"));
  const size_t largest = std::stoul(argument(5, std::to_string(64 << 20).c_str()));

  const auto megabytes = static_cast<unsigned>(std::stoul(argument(6, "0")));

  Doors doors(static_cast<size_t>(ranks));
  for (size_t i = 0; i < doors.size(); ++i) {
    const transport::tcp::LinkIdentity me{static_cast<uint32_t>(i)};
    const Status status =
        transport::tcp::LinkListener::Open({"127.0.0.1", 0}, 64, me, nullptr, &doors[i]);
    if (!status.ok()) Die(status);
    if (megabytes == 0) doors[i]->StopPacing();
  }
  std::vector<pid_t> children;
  for (int rank = 1; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      Run(rank, ranks, doors, options, smallest, largest, megabytes);
      _exit(0);
    }
    children.push_back(child);
  }
  Run(0, ranks, doors, options, smallest, largest, megabytes);
  for (pid_t child : children) waitpid(child, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace hvdlite

int main(int argc, char** argv) {
  return hvdlite::Main(argc, argv);
}
