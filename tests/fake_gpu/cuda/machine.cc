#include "fake_gpu/cuda/machine.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <sstream>

#include "fake_gpu/cuda/unseen.h"

namespace hvdlite::fake_gpu {

namespace {

const std::map<std::string, long> kSettings = {
    {"devices", 2}, {"version", 13000}, {"seed", 1},        {"delay_us", 200}, {"memory_mb", 4096},
    {"pools", 1},   {"protect", 1},     {"capability", 90}, {"free_waits", 0},
};

constexpr int kMostDevices = 64;

std::string Environment(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  const char* const value = getenv(("FAKE_CUDA_" + name).c_str());
  return value != nullptr ? value : "";
}

}  // namespace

Machine& Machine::Get() {
  static Machine* const machine = new Machine;
  return *machine;
}

Machine::Machine() {
  Reset();
  for (int i = 0; i < kMostDevices; ++i)
    devices.push_back(std::make_unique<Device>(Device{.ordinal = i}));
}

void Machine::Reset() {
  settings = kSettings;
  for (const auto& [name, value] : kSettings) {
    const std::string given = Environment(name);
    if (!given.empty()) Set(name, std::stol(given));
  }
  failures.clear();
  std::istringstream commands(Environment("fail"));
  for (std::string command; std::getline(commands, command, ',');) {
    std::replace(command.begin(), command.end(), ':', ' ');
    std::istringstream fields(command);
    std::string symbol;
    Failure failure{};
    fields >> symbol >> failure.nth >> failure.times >> failure.result;
    failures[symbol].push_back(failure);
  }
  calls.clear();
  complaints.clear();
  for (const auto& device : devices) device->broken = kSuccess;
  LetGo();
}

void Machine::LetGo() {
  for (const auto& stream : streams) stream->held = false;
  for (const auto& [key, stream] : default_streams) stream->held = false;
  changed.notify_all();
}

int Machine::Complain(int result, const std::string& what) {
  const std::string line = "fake cuda: " + what + "\n";
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) abort();
  complaints.push_back(what);
  return result;
}

void Machine::Set(const std::string& name, long value) {
  if (settings.count(name) == 0 || (name == "devices" && value > kMostDevices)) {
    Complain(kInvalidValue, "there is no setting " + name + "=" + std::to_string(value));
    return;
  }
  settings[name] = value;
}

int Machine::Commanded(const char* symbol) {
  ++calls[symbol];
  int result = kSuccess;
  for (Failure& failure : failures[symbol]) {
    if (failure.nth > 1) {
      --failure.nth;
    } else if (failure.times > 0) {
      --failure.times;
      if (failure.result < 0) kill(getpid(), -failure.result);
      result = failure.result;
    }
  }
  return result;
}

std::shared_ptr<Stream> Machine::FindStream(void* handle, Device* device) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number <= 2) {
    // 0 is 1, the legacy one; 2 is one for each thread.
    const bool own = number == 2;
    const std::tuple key(device, own ? 2 : 1, own ? std::this_thread::get_id() : std::thread::id());
    std::shared_ptr<Stream>& stream = default_streams[key];
    if (stream == nullptr) stream = NewStream(device);
    return stream;
  }
  for (const auto& stream : streams) {
    if (stream.get() == handle) return stream;
  }
  return nullptr;
}

std::shared_ptr<Event> Machine::FindEvent(void* handle) const {
  for (const auto& event : events) {
    if (event.get() == handle) return event;
  }
  return nullptr;
}

std::shared_ptr<Stream> Machine::NewStream(Device* device) {
  auto stream = std::make_shared<Stream>();
  stream->device = device;
  stream->number = ++streams_made;
  std::thread thread(&Machine::Run, this, stream);
  pthread_setname_np(thread.native_handle(), "fake stream");
  thread.detach();
  return stream;
}

void Machine::Give(const std::shared_ptr<Stream>& stream, bool always, std::function<void()> run,
                   std::function<void()> drop) {
  auto work = std::make_unique<Work>(Work{std::move(run), always, std::move(drop)});
  PromiseUnseen(work.get());
  stream->queue.push_back(std::move(work));
  ++stream->given;
  ++under_way;
  changed.notify_all();
}

void Machine::Drain(const std::shared_ptr<Stream>& stream, std::unique_lock<std::mutex>* lock) {
  const uint64_t given = stream->given;
  changed.wait(*lock, [&] { return stream->done >= given; });
}

void Machine::Run(std::shared_ptr<Stream> stream) {
  Memory::Touch(true);
  std::mt19937 random;
  {
    const Unseen unseen;
    const std::lock_guard lock(mutex);
    random.seed(static_cast<uint32_t>(Setting("seed") * 7919 + stream->number));
  }
  for (;;) {
    Work* work = nullptr;
    long nap = 0;
    bool runs = false;
    {
      const Unseen unseen;
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] {
        return (!stream->queue.empty() && !stream->held) ||
               (stream->queue.empty() && stream->closed);
      });
      if (stream->queue.empty()) {
        stream.reset();
        return;
      }
      work = stream->queue.front().get();
      const long longest = Setting("delay_us");
      if (longest > 0 && random() % 2 == 0)
        nap = static_cast<long>(random() % static_cast<unsigned long>(longest + 1));
    }
    if (nap > 0) usleep(static_cast<useconds_t>(nap));
    {
      const Unseen unseen;
      const std::lock_guard lock(mutex);
      runs = work->always || stream->device->broken == kSuccess;
    }
    Rely(work);
    if (runs)
      work->run();
    else if (work->drop)
      work->drop();
    Promise(stream.get());
    Promise(this);
    {
      const Unseen unseen;
      const std::lock_guard lock(mutex);
      stream->queue.pop_front();
      ++stream->done;
      --under_way;
      changed.notify_all();
    }
  }
}

}  // namespace hvdlite::fake_gpu
