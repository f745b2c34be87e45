// Machine: everything that the fake driver knows: devices, streams, events, memory, what was
// commanded and what went wrong.
//
// One per process, never destroyed: streams are threads that may outlive main(). All of it is under
// one mutex, and is touched Unseen only (see unseen.h).
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "fake_gpu/cuda/memory.h"
#include "fake_gpu/kernels.h"

namespace hvdlite::fake_gpu {

// CUresults that the fake gives.
constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kNotInitialized = 3;
constexpr int kNoDevice = 100;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidImage = 200;
constexpr int kInvalidContext = 201;
constexpr int kInvalidHandle = 400;
constexpr int kNotFound = 500;
constexpr int kNotReady = 600;
constexpr int kIllegalAddress = 700;
constexpr int kContextIsDestroyed = 709;
constexpr int kNotSupported = 801;
constexpr int kCaptureUnsupported = 900;
constexpr int kCaptureInvalidated = 901;
constexpr int kCaptureUnmatched = 903;
constexpr int kCaptureIsolation = 905;
constexpr int kCaptureImplicit = 906;

// CUstreamCaptureMode
constexpr int kCaptureGlobal = 0;
constexpr int kCaptureRelaxed = 2;

struct Device {
  int ordinal;
  int retained = 0;
  int broken = kSuccess;  // what every call returns from now on
};

// One recording of an event.
struct Moment {
  bool passed = false;
};

struct Event {
  Device* device;
  std::shared_ptr<Moment> last;  // null: never recorded
};

struct Work {
  std::function<void()> run;
  bool always;                 // on a broken device, too: else those who wait would wait for ever
  std::function<void()> drop;  // instead of it there; may be empty
};

struct Stream {
  Device* device;
  int number;
  std::deque<std::unique_ptr<Work>> queue;
  uint64_t given = 0, done = 0;
  bool held = false;
  bool closed = false;
  enum class Capture { kNone = 0, kActive = 1, kInvalidated = 2 } capture = Capture::kNone;
  int capture_mode = kCaptureGlobal;
  std::thread::id capturer;
};

struct Pool {
  Device* device;
  bool reuses_by_waiting = true;  // unless told otherwise, as a driver's
};

struct Module {
  Device* device;
};

struct Function {
  Device* device;
  Bind bind;
};

struct Failure {
  int nth, times, result;
};

struct Machine {
  static Machine& Get();

  std::mutex mutex;
  // Something has happened: a stream was given work or let go, finished something, a moment passed.
  std::condition_variable changed;

  pid_t process = 0;  // that called cuInit
  std::map<std::string, long> settings;
  std::vector<std::unique_ptr<Device>> devices;  // more than there are by the setting
  Memory memory;
  std::set<std::shared_ptr<Stream>> streams;
  std::map<std::tuple<Device*, int, std::thread::id>, std::shared_ptr<Stream>> default_streams;
  std::set<std::shared_ptr<Event>> events;
  std::map<void*, std::unique_ptr<Pool>> pools;
  std::map<Module*, std::unique_ptr<Module>> modules;
  std::map<Function*, std::unique_ptr<Function>> functions;
  int streams_made = 0;
  uint64_t under_way = 0;  // given to any stream, also one that has been destroyed, and not done

  std::map<std::string, std::vector<Failure>> failures;
  std::map<std::string, long> calls;
  std::vector<std::string> complaints;

  // The mutex is held for what follows.

  void Reset();
  // No stream is held any more.
  void LetGo();
  long Setting(const char* name) const { return settings.at(name); }
  void Set(const std::string& name, long value);
  // Prints, keeps, and returns `result`.
  int Complain(int result, const std::string& what);
  // What was commanded for this call; kSuccess if nothing was.
  int Commanded(const char* symbol);

  // Of `handle`, 0, 1 and 2 included, in the context of `device`. Null: there is none.
  std::shared_ptr<Stream> FindStream(void* handle, Device* device);
  std::shared_ptr<Event> FindEvent(void* handle) const;
  std::shared_ptr<Stream> NewStream(Device* device);
  void Give(const std::shared_ptr<Stream>& stream, bool always, std::function<void()> run,
            std::function<void()> drop = {});
  // Waits, without the mutex, until the stream has done what it has been given so far. To be
  // followed by Rely(stream).
  void Drain(const std::shared_ptr<Stream>& stream, std::unique_lock<std::mutex>* lock);

 private:
  Machine();
  // What the thread of a stream does.
  void Run(std::shared_ptr<Stream> stream);
};

}  // namespace hvdlite::fake_gpu
