// How fast two processes exchange bytes over loopback TCP, both ways at once, with nothing else:
// the floor under net_bench.
//
//   tcp_floor [NAME=NUMBER...] [congestion=reno|cubic|bbr]
//
//   kib=16384       bytes each way, in KiB
//   piece=128       KiB that one call sends or receives
//   streams=1       connections that share the bytes
//   lead=0          KiB that may be sent before as many are received; 0: no bound
//   sum=1           adds what arrives to what is sent, as an allreduce does
//   buffers=0       SO_SNDBUF in KiB, and half of SO_RCVBUF; 0: the kernel's choice
//   rounds=60
//
// Prints the median, the tenth and the ninetieth percentile in microseconds, and seconds of
// processor time per GiB. Each process has a processor of its own, as SCHED_FIFO if permitted.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "cpu_time.h"

namespace {

constexpr size_t kKiB = 1024;

struct Options {
  std::map<std::string, size_t> numbers{{"kib", 16384}, {"piece", 128}, {"streams", 1}, {"lead", 0},
                                        {"sum", 1},     {"buffers", 0}, {"rounds", 60}};
  std::string congestion;

  size_t operator[](const char* name) const { return numbers.at(name); }
};

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::exit(1);
}

void Require(bool good, const char* what) {
  if (!good) Die(what);
}

void Prepare(int fd, const Options& options) {
  const int on = 1;
  Require(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0, "TCP_NODELAY");
  const auto& name = options.congestion;
  Require(name.empty() || setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                                     static_cast<socklen_t>(name.size())) == 0,
          "congestion");
  const int sending = static_cast<int>(options["buffers"] * kKiB), receiving = 2 * sending;
  if (sending == 0) return;
  Require(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sending, sizeof(sending)) == 0, "SO_SNDBUF");
  Require(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receiving, sizeof(receiving)) == 0, "SO_RCVBUF");
}

// One connection: a socket for each of the two processes.
struct Ends {
  int fds[2];
};

Ends Connect(const Options& options) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof(address);
  const int door = socket(AF_INET, SOCK_STREAM, 0);
  Prepare(door, options);
  Require(bind(door, name, length) == 0 && listen(door, 1) == 0, "listen");
  Require(getsockname(door, name, &length) == 0, "getsockname");
  Ends ends{};
  ends.fds[0] = socket(AF_INET, SOCK_STREAM, 0);
  Prepare(ends.fds[0], options);
  Require(connect(ends.fds[0], name, length) == 0, "connect");
  ends.fds[1] = accept(door, nullptr, nullptr);
  Require(ends.fds[1] >= 0, "accept");
  Prepare(ends.fds[1], options);
  close(door);
  return ends;
}

// One end of one connection, with its share of the bytes.
struct Stream {
  int fd;
  float* data;
  size_t bytes;
  size_t sent = 0;
  size_t received = 0;

  bool done() const { return sent == bytes && received == bytes; }

  void Send(size_t piece, size_t lead) {
    const size_t limit = lead == 0 ? bytes : std::min(bytes, received + lead);
    if (sent >= limit) return;
    const ssize_t n = send(fd, reinterpret_cast<const char*>(data) + sent,
                           std::min(piece, limit - sent), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) sent += static_cast<size_t>(n);
  }

  void Receive(std::vector<float>* arriving, bool sum) {
    if (received == bytes) return;
    const size_t piece = arriving->size() * sizeof(float);
    const ssize_t n = recv(fd, arriving->data(), std::min(piece, bytes - received), MSG_DONTWAIT);
    if (n == 0) std::exit(1);
    if (n < 0) return;
    // Numbers that are cut between two calls do not matter here.
    const size_t count = sum ? static_cast<size_t>(n) / sizeof(float) : 0;
    float* const to = data + received / sizeof(float);
    for (size_t i = 0; i < count; ++i) to[i] += (*arriving)[i];
    received += static_cast<size_t>(n);
  }
};

double Micros() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

void Meet(int fd) {
  char byte = 0;
  Require(send(fd, &byte, 1, MSG_NOSIGNAL) == 1, "send");
  Require(recv(fd, &byte, 1, MSG_WAITALL) == 1, "recv");
}

void Run(int me, const std::vector<Ends>& connections, const Options& options) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  CPU_SET(me, &mine);
  sched_setaffinity(0, sizeof(mine), &mine);
  const sched_param priority{10};
  sched_setscheduler(0, SCHED_FIFO, &priority);

  const size_t share = options["kib"] * kKiB / connections.size();
  const size_t piece = options["piece"] * kKiB;
  std::vector<float> data(options["kib"] * kKiB / sizeof(float), 1);
  std::vector<float> arriving(piece / sizeof(float));
  constexpr size_t kWarm = 3;
  std::vector<double> times;
  double cpu = 0;
  for (size_t round = 0; round < options["rounds"] + kWarm; ++round) {
    std::vector<Stream> streams;
    for (size_t i = 0; i < connections.size(); ++i) {
      streams.push_back({connections[i].fds[me], data.data() + i * share / sizeof(float), share});
    }
    Meet(connections[0].fds[me]);
    if (round == kWarm) cpu = CpuMicros();
    const double begin = Micros();
    while (!std::all_of(streams.begin(), streams.end(), [](const Stream& s) { return s.done(); })) {
      for (Stream& stream : streams) {
        stream.Send(piece, options["lead"] * kKiB);
        stream.Receive(&arriving, options["sum"] != 0);
      }
    }
    if (round >= kWarm) times.push_back(Micros() - begin);
  }
  if (me != 0) return;
  cpu = (CpuMicros() - cpu) / static_cast<double>(times.size());
  std::sort(times.begin(), times.end());
  const double gib = static_cast<double>(options["kib"]) / (1 << 20);
  std::printf("p50 %9.1f us   p10 %9.1f   p90 %9.1f   cpu %.3f s per GiB\n",
              times[times.size() / 2], times[times.size() / 10], times[times.size() * 9 / 10],
              cpu / 1e6 / gib);
}

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const size_t equals = std::min(text.find('='), text.size() - 1);
    const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
    if (name == "congestion") {
      options.congestion = value;
    } else if (options.numbers.contains(name)) {
      options.numbers[name] = std::stoul(value);
    } else {
      std::fprintf(stderr, "unknown: %s\n", text.c_str());
      std::exit(1);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  std::vector<Ends> connections;
  for (size_t i = 0; i < options["streams"]; ++i) connections.push_back(Connect(options));
  const pid_t child = fork();
  Run(child == 0 ? 1 : 0, connections, options);
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return 0;
}
