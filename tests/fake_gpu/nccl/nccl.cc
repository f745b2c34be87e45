// The functions of libnccl.so.2, as csrc/comm/nccl/functions.def names them: who may call what,
// groups, and communicators by handle.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_gpu/fake_nccl.h"
#include "fake_gpu/nccl/abi.h"
#include "fake_gpu/nccl/command.h"
#include "fake_gpu/nccl/communicator.h"

using namespace fake_nccl;  // NOLINT: all of this file is its C face

namespace {

using CommPtr = std::shared_ptr<Communicator>;

// Those that exist. A handle is the object's address.
class Register {
 public:
  static Register& Get() {
    static Register* const all = new Register();
    return *all;
  }
  void* Add(CommPtr communicator) {
    const std::lock_guard lock(mutex_);
    void* const handle = communicator.get();
    all_[handle] = std::move(communicator);
    return handle;
  }
  CommPtr Find(void* handle, const char* caller) {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(handle);
    if (found != all_.end()) return found->second;
    Complain(std::string(caller) + " of a communicator that does not exist (any more)");
    return nullptr;
  }
  void Remove(void* handle) {
    const std::lock_guard lock(mutex_);
    all_.erase(handle);
  }
  long size() {
    const std::lock_guard lock(mutex_);
    return static_cast<long>(all_.size());
  }

 private:
  std::mutex mutex_;
  std::map<void*, CommPtr> all_;
};

// What one thread has called between ncclGroupStart and ncclGroupEnd.
struct Group {
  struct Part {
    CommPtr communicator;
    void* stream;
    std::vector<Operation> operations;
  };
  int depth = 0;
  Result failure = ncclSuccess;
  std::vector<Part> parts;  // one of each communicator and stream

  void Add(const CommPtr& communicator, void* stream, const Operation& operation) {
    for (Part& part : parts) {
      if (part.communicator == communicator && part.stream == stream)
        return part.operations.push_back(operation);
    }
    parts.push_back({communicator, stream, {operation}});
  }
};
thread_local Group t_group;

// Before 2.27 a thread that has asked for something on one communicator must not ask another one.
// (It may, as long as nothing of the first goes on in the background, but who could know.)
bool MayCall(const char* symbol, const void* comm) {
  constexpr long kAnyThread = 22700;
  thread_local const void* mine = nullptr;
  if (Setting("version") >= kAnyThread || mine == nullptr || mine == comm) {
    mine = comm;
    return true;
  }
  Complain(std::string(symbol) +
           " by a thread that has called another communicator, which this NCCL mixes up");
  return false;
}

Result Do(const char* symbol, void* comm, void* stream, const Operation& operation) {
  Group& group = t_group;
  const auto fail = [&](Result result) {
    if (group.depth > 0) group.failure = result;
    return result;
  };
  const CommPtr communicator = Register::Get().Find(comm, symbol);
  if (communicator == nullptr || !MayCall(symbol, comm)) return fail(ncclInvalidArgument);
  if (const int result = Called(symbol, communicator->rank()); result != 0)
    return fail(static_cast<Result>(result));
  if (CurrentContext() == nullptr) {
    Complain(std::string(symbol) + " without a current context");
    return fail(ncclUnhandledCudaError);
  }
  if (group.depth == 0) return communicator->Launch(stream, {operation});
  group.Add(communicator, stream, operation);
  return ncclSuccess;
}

std::string NameOf(const UniqueId& id) {
  std::string name = "/fake-nccl-";
  for (int i = 0; i < 16; ++i) {
    char hex[3];
    snprintf(hex, sizeof(hex), "%02x", static_cast<unsigned char>(id.internal[i]));
    name += hex;
  }
  return name;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED long fake_nccl_live() {
  return Register::Get().size();
}

EXPORTED Result ncclGetVersion(int* version) {
  *version = static_cast<int>(Setting("version"));
  return ncclSuccess;
}

EXPORTED const char* ncclGetErrorString(Result result) {
  constexpr const char* texts[] = {
      "no error",         "unhandled cuda error", "unhandled system error", "internal error",
      "invalid argument", "invalid usage",        "remote error",           "in progress"};
  return result >= 0 && result <= ncclInProgress ? texts[result] : "unknown result code";
}

EXPORTED const char* ncclGetLastError(void* comm) {
  thread_local std::string text;
  text.clear();
  if (comm != nullptr) {
    if (const CommPtr communicator = Register::Get().Find(comm, "ncclGetLastError"))
      text = communicator->error();
  }
  return text.c_str();
}

EXPORTED Result ncclGetUniqueId(UniqueId* id) {
  if (const int result = Called("ncclGetUniqueId", -1); result != 0)
    return static_cast<Result>(result);
  std::random_device random;
  memset(id, 0, sizeof(*id));
  for (int i = 0; i < 16; ++i) id->internal[i] = static_cast<char>(random());
  id->internal[127] = 'x';  // all 128 bytes have to travel
  return ncclSuccess;
}

EXPORTED Result ncclCommInitRankConfig(void** comm, int ranks, UniqueId id, int rank,
                                       Config* config) {
  *comm = nullptr;
  if (const int result = Called("ncclCommInitRankConfig", rank); result != 0)
    return static_cast<Result>(result);
  const auto refuse = [](const std::string& why) {
    Complain("ncclCommInitRankConfig: " + why);
    return ncclInvalidArgument;
  };
  if (CurrentContext() == nullptr) return refuse("without a current context");
  if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks)
    return refuse("there is no such rank");
  if (id.internal[127] != 'x') return refuse("the unique id has not come whole");
  if (config->magic != kMagic || config->size < 20 || config->version < 21400)
    return refuse("the config is not one");
  if (config->blocking != 0 && config->blocking != 1) return refuse("blocking is neither 0 nor 1");
  if (config->size >= sizeof(Config) && config->version >= 21700 &&
      config->cgaClusterSize != INT_MIN &&
      (config->cgaClusterSize < 0 || config->cgaClusterSize > 8)) {
    return refuse("cgaClusterSize is out of bounds");
  }
  const auto communicator = std::make_shared<Communicator>(rank, ranks, config->blocking == 1);
  *comm = Register::Get().Add(communicator);
  if (!MayCall("ncclCommInitRankConfig", *comm)) return ncclInvalidUsage;
  return communicator->Begin(NameOf(id));
}

EXPORTED Result ncclCommGetAsyncError(void* comm, Result* state) {
  const CommPtr communicator = Register::Get().Find(comm, "ncclCommGetAsyncError");
  if (communicator == nullptr) return ncclInvalidArgument;
  if (const int result = Called("ncclCommGetAsyncError", communicator->rank()); result != 0)
    return static_cast<Result>(result);
  *state = communicator->state();
  return ncclSuccess;
}

EXPORTED Result ncclCommFinalize(void* comm) {
  const CommPtr communicator = Register::Get().Find(comm, "ncclCommFinalize");
  if (communicator == nullptr || !MayCall("ncclCommFinalize", comm)) return ncclInvalidArgument;
  if (const int result = Called("ncclCommFinalize", communicator->rank()); result != 0)
    return static_cast<Result>(result);
  return communicator->Finalize();
}

EXPORTED Result ncclCommDestroy(void* comm) {
  const CommPtr communicator = Register::Get().Find(comm, "ncclCommDestroy");
  if (communicator == nullptr) return ncclInvalidArgument;
  (void)Called("ncclCommDestroy", communicator->rank());
  if (!communicator->finalized()) {
    Complain("ncclCommDestroy before ncclCommFinalize has come to its end");
    return ncclInvalidUsage;
  }
  communicator->Join();
  while (Setting("linger") != 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  communicator->Free();
  Register::Get().Remove(comm);
  return ncclSuccess;
}

EXPORTED Result ncclCommAbort(void* comm) {
  const CommPtr communicator = Register::Get().Find(comm, "ncclCommAbort");
  if (communicator == nullptr) return ncclInvalidArgument;
  (void)Called("ncclCommAbort", communicator->rank());
  while (Setting("hold_abort") != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  communicator->Abort();
  communicator->Free();
  Register::Get().Remove(comm);
  return ncclSuccess;
}

EXPORTED Result ncclGroupStart() {
  if (const int result = Called("ncclGroupStart", -1); result != 0)
    return static_cast<Result>(result);
  if (t_group.depth++ == 0) {
    t_group.failure = ncclSuccess;
    t_group.parts.clear();
  }
  return ncclSuccess;
}

EXPORTED Result ncclGroupEnd() {
  Group& group = t_group;
  if (group.depth == 0) {
    Complain("ncclGroupEnd without ncclGroupStart");
    return ncclInvalidUsage;
  }
  if (--group.depth > 0) return ncclSuccess;
  const std::vector<Group::Part> parts = std::exchange(group.parts, {});
  if (group.failure != ncclSuccess) return group.failure;
  Result all = ncclSuccess;
  for (const Group::Part& part : parts) {
    if (const int result = Called("ncclGroupEnd", part.communicator->rank()); result != 0) {
      return static_cast<Result>(result);
    }
    const Result result = part.communicator->Launch(part.stream, part.operations);
    if (result != ncclSuccess && result != ncclInProgress) return result;
    if (result == ncclInProgress) all = ncclInProgress;
  }
  return all;
}

EXPORTED Result ncclAllReduce(const void* from, void* to, size_t count, int type, int op,
                              void* comm, void* stream) {
  return Do("ncclAllReduce", comm, stream, {What::kAllReduce, from, to, count, type, op, 0});
}
EXPORTED Result ncclReduce(const void* from, void* to, size_t count, int type, int op, int root,
                           void* comm, void* stream) {
  return Do("ncclReduce", comm, stream, {What::kReduce, from, to, count, type, op, root});
}
EXPORTED Result ncclBroadcast(const void* from, void* to, size_t count, int type, int root,
                              void* comm, void* stream) {
  return Do("ncclBroadcast", comm, stream, {What::kBroadcast, from, to, count, type, 0, root});
}
EXPORTED Result ncclAllGather(const void* from, void* to, size_t count, int type, void* comm,
                              void* stream) {
  return Do("ncclAllGather", comm, stream, {What::kAllGather, from, to, count, type, 0, 0});
}
EXPORTED Result ncclReduceScatter(const void* from, void* to, size_t count, int type, int op,
                                  void* comm, void* stream) {
  return Do("ncclReduceScatter", comm, stream,
            {What::kReduceScatter, from, to, count, type, op, 0});
}
EXPORTED Result ncclSend(const void* from, size_t count, int type, int peer, void* comm,
                         void* stream) {
  return Do("ncclSend", comm, stream, {What::kSend, from, nullptr, count, type, 0, peer});
}
EXPORTED Result ncclRecv(void* to, size_t count, int type, int peer, void* comm, void* stream) {
  return Do("ncclRecv", comm, stream, {What::kRecv, nullptr, to, count, type, 0, peer});
}
