#include "device/driver.h"

#include <dlfcn.h>

namespace hvdlite::device {

namespace {

// cuDeviceGetUuid_v2 came with CUDA 11.4. Every other function that hvdlite calls is older.
constexpr int kOldest = 11040;

constexpr int kNoDevice = 100;

std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// "out of memory (CUDA_ERROR_OUT_OF_MEMORY)"
std::string Words(const Driver& driver, int code) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.GetErrorName(code, &name) != kSuccess ||
      driver.GetErrorString(code, &text) != kSuccess) {
    return "error " + std::to_string(code);
  }
  return std::string(text) + " (" + name + ")";
}

Status Unusable(const std::string& why) {
  return Status::Unsupported("CUDA cannot be used: " + why);
}

}  // namespace

Status Driver::Check(int code, std::string_view doing) const {
  if (code == kSuccess) return Status::Ok();
  return Status::Io("CUDA failed while " + std::string(doing) + ": " + Words(*this, code));
}

Status LoadDriver(const std::string& library, std::shared_ptr<const Driver>* out) {
  // Never closed: frameworks use the library, too, and it cannot be unloaded safely.
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* const why = dlerror();
    return Unusable("no NVIDIA driver is installed here (" +
                    std::string(why != nullptr ? why : library) + ")");
  }
  auto driver = std::make_shared<Driver>();
  std::string missing;
#define HVDLITE_CUDA(name, symbol, parameters)                                     \
  driver->name = reinterpret_cast<decltype(driver->name)>(dlsym(opened, #symbol)); \
  if (driver->name == nullptr && missing.empty()) missing = #symbol;
#include "device/functions.def"
#undef HVDLITE_CUDA
  if (driver->DriverGetVersion != nullptr) driver->DriverGetVersion(&driver->version);
  if (driver->version != 0 && driver->version < kOldest) {
    return Unusable("the NVIDIA driver is too old: it is of CUDA " + VersionText(driver->version) +
                    ", hvdlite needs that of " + VersionText(kOldest) + " or later");
  }
  if (!missing.empty()) return Unusable("there is no " + missing + " in " + library);
  int devices = 0;
  int code = driver->Init(0);
  if (code == kSuccess) code = driver->DeviceGetCount(&devices);
  if (code == kNoDevice || (code == kSuccess && devices == 0)) {
    return Unusable(
        "this process sees no GPU; CUDA_VISIBLE_DEVICES, a container or a scheduler may hide it");
  }
  if (code != kSuccess) {
    return Unusable("the NVIDIA driver (CUDA " + VersionText(driver->version) + ") says: " +
                    Words(*driver, code) + "; nvidia-smi on this host should say more");
  }
  *out = std::move(driver);
  return Status::Ok();
}

}  // namespace hvdlite::device
