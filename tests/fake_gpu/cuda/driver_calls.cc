// The functions of libcuda.so.1 that need no stream: the driver, devices, contexts, errors,
// modules.
#include "device/driver.h"

#include <cstring>

#include "fake_gpu/cuda/call.h"
#include "fake_gpu/cuda/exports.h"

namespace {

using namespace hvdlite::fake_gpu;

struct Error {
  int code;
  const char* name;
  const char* text;
};

// As libcuda says them.
constexpr Error kErrors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

int Find(int code, const char* Error::* field, const char** text) {
  for (const Error& error : kErrors) {
    if (error.code != code) continue;
    *text = error.*field;
    return kSuccess;
  }
  *text = nullptr;
  return kInvalidValue;
}

// The device of a number that cuDeviceGet gave out; null if it did not.
Device* Known(Call* call, int number) {
  const bool there = number >= 0 && number < call->machine().Setting("devices");
  return there ? call->machine().devices[static_cast<size_t>(number)].get() : nullptr;
}

}  // namespace

EXPORT int cuInit(unsigned flags) {
  FAKE_CUDA_CALL(kNothing);
  if (flags != 0) return call.Complain(kInvalidValue, "flags must be 0");
  if (call.machine().Setting("devices") == 0) return kNoDevice;
  call.machine().process = getpid();
  return kSuccess;
}

EXPORT int cuDriverGetVersion(int* version) {
  FAKE_CUDA_CALL(kNothing);
  *version = static_cast<int>(call.machine().Setting("version"));
  return kSuccess;
}

EXPORT int cuGetErrorName(int code, const char** text) {
  return Find(code, &Error::name, text);
}

EXPORT int cuGetErrorString(int code, const char** text) {
  return Find(code, &Error::text, text);
}

EXPORT int cuDeviceGetCount(int* count) {
  FAKE_CUDA_CALL(kInit);
  *count = static_cast<int>(call.machine().Setting("devices"));
  return kSuccess;
}

EXPORT int cuDeviceGet(int* device, int ordinal) {
  FAKE_CUDA_CALL(kInit);
  if (Known(&call, ordinal) == nullptr) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

EXPORT int cuDeviceGetName(char* name, int length, int device) {
  FAKE_CUDA_CALL(kInit);
  if (Known(&call, device) == nullptr) return kInvalidDevice;
  snprintf(name, static_cast<size_t>(length), "Fake GPU %d", device);
  return kSuccess;
}

EXPORT int cuDeviceGetUuid_v2(hvdlite::device::Uuid* uuid, int device) {
  FAKE_CUDA_CALL(kInit);
  if (Known(&call, device) == nullptr) return kInvalidDevice;
  memcpy(uuid->bytes, "fake gpu of test", sizeof(uuid->bytes));
  uuid->bytes[8] = static_cast<char>('0' + device);
  return kSuccess;
}

EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  FAKE_CUDA_CALL(kInit);
  if (Known(&call, device) == nullptr) return kInvalidDevice;
  const long capability = call.machine().Setting("capability");
  switch (attribute) {
    case 16: *value = 8; return kSuccess;  // multiprocessors
    case 75:
      *value = static_cast<int>(capability / 10);
      return kSuccess;  // compute capability, major
    case 76: *value = static_cast<int>(capability % 10); return kSuccess;  // ... minor
    case 115:
      *value = static_cast<int>(call.machine().Setting("pools"));
      return kSuccess;  // memory pools
    default:
      return call.Complain(kInvalidValue,
                           "the fake knows no attribute " + std::to_string(attribute));
  }
}

EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  FAKE_CUDA_CALL(kInit);
  Device* const known = Known(&call, device);
  if (known == nullptr) return kInvalidDevice;
  ++known->retained;
  *context = known;
  return kSuccess;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  FAKE_CUDA_CALL(kInit);
  Device* const known = Known(&call, device);
  if (known == nullptr) return kInvalidDevice;
  if (known->retained == 0)
    return call.Complain(kInvalidContext, "released more often than retained");
  --known->retained;
  return kSuccess;
}

EXPORT int cuCtxPushCurrent_v2(void* context) {
  FAKE_CUDA_CALL(kInit);
  for (const auto& device : call.machine().devices) {
    if (device.get() != context) continue;
    Call::Contexts().push_back(device.get());
    return kSuccess;
  }
  return call.Complain(kInvalidContext, "this is no context");
}

EXPORT int cuCtxPopCurrent_v2(void** context) {
  FAKE_CUDA_CALL(kInit);
  if (Call::Contexts().empty()) return call.Complain(kInvalidContext, "no context is current");
  *context = Call::Contexts().back();
  Call::Contexts().pop_back();
  return kSuccess;
}

EXPORT int cuCtxSetCurrent(void* context) {
  FAKE_CUDA_CALL(kInit);
  if (!Call::Contexts().empty()) Call::Contexts().pop_back();
  if (context != nullptr) Call::Contexts().push_back(static_cast<Device*>(context));
  return kSuccess;
}

EXPORT int cuCtxGetCurrent(void** context) {
  FAKE_CUDA_CALL(kInit);
  *context = call.device();
  return kSuccess;
}

EXPORT int cuModuleLoadData(void** module, const void* image) {
  FAKE_CUDA_CALL(kContext);
  FAKE_CUDA_TRY(call.RefuseDuringCapture());
  if (image == nullptr) return kInvalidImage;
  auto made = std::make_unique<Module>(Module{call.device()});
  *module = made.get();
  call.machine().modules[made.get()] = std::move(made);
  return kSuccess;
}

EXPORT int cuModuleUnload(void* module) {
  FAKE_CUDA_CALL(kContext);
  if (call.machine().modules.erase(static_cast<Module*>(module)) == 0) {
    return call.Complain(kInvalidHandle, "there is no such module");
  }
  return kSuccess;
}

EXPORT int cuModuleGetFunction(void** function, void* module, const char* name) {
  FAKE_CUDA_CALL(kContext);
  if (call.machine().modules.count(static_cast<Module*>(module)) == 0) {
    return call.Complain(kInvalidHandle, "there is no such module");
  }
  const Bind bind = FindKernel(name);
  if (bind == nullptr) return kNotFound;
  auto made = std::make_unique<Function>(Function{call.device(), bind});
  *function = made.get();
  call.machine().functions[made.get()] = std::move(made);
  return kSuccess;
}
