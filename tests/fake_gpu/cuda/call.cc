#include "fake_gpu/cuda/call.h"

#include <unistd.h>

#include <cstdlib>

namespace hvdlite::fake_gpu {

namespace {

bool InForkedChild(const Machine& machine) {
  return machine.process != 0 && machine.process != getpid();
}

}  // namespace

std::vector<Device*>& Call::Contexts() {
  static thread_local std::vector<Device*> contexts;
  return contexts;
}

int& Call::CaptureMode() {
  static thread_local int mode = kCaptureGlobal;
  return mode;
}

Call::Call(const char* symbol, Needs needs) : machine_(Machine::Get()), symbol_(symbol) {
  if (InForkedChild(machine_)) {
    // The mutex may belong to a thread that is not here.
    const std::string line = "fake cuda: " + symbol_ + ": called in a forked child\n";
    if (write(STDERR_FILENO, line.data(), line.size()) < 0) abort();
    code_ = kNotInitialized;
    return;
  }
  lock_ = std::unique_lock(machine_.mutex);
  code_ = machine_.Commanded(symbol);
  if (code_ == kSuccess) code_ = Check(needs);
}

int Call::Check(Needs needs) {
  if (needs == kNothing) return kSuccess;
  if (machine_.process == 0) return Complain(kNotInitialized, "called before cuInit");
  if (!Contexts().empty()) device_ = Contexts().back();
  if (needs == kInit) return kSuccess;
  if (device_ == nullptr) return Complain(kInvalidContext, "no context is current");
  if (device_->retained == 0)
    return Complain(kContextIsDestroyed, "nobody retains the current context");
  return device_->broken;
}

int Call::StreamFor(void* handle, std::shared_ptr<Stream>* stream) {
  *stream = machine_.FindStream(handle, device_);
  if (*stream == nullptr) return Complain(kInvalidHandle, "there is no such stream");
  if ((*stream)->device != device_)
    return Complain(kInvalidHandle, "the stream is of another context than the current");
  if ((*stream)->capture != Stream::Capture::kNone) {
    (*stream)->capture = Stream::Capture::kInvalidated;
    return Complain(kCaptureUnsupported, "the stream is being captured");
  }
  return kSuccess;
}

int Call::RefuseDuringCapture() {
  if (CaptureMode() == kCaptureRelaxed) return kSuccess;
  bool refused = false;
  for (const auto& stream : machine_.streams) {
    if (stream->capture != Stream::Capture::kActive || stream->capture_mode == kCaptureRelaxed)
      continue;
    const bool mine = stream->capturer == std::this_thread::get_id();
    const bool all_are_global =
        stream->capture_mode == kCaptureGlobal && CaptureMode() == kCaptureGlobal;
    if (!mine && !all_are_global) continue;
    stream->capture = Stream::Capture::kInvalidated;
    refused = true;
  }
  return refused ? Complain(kCaptureUnsupported, "called while a stream is being captured")
                 : kSuccess;
}

}  // namespace hvdlite::fake_gpu
