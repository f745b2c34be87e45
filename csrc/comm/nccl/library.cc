#include "comm/nccl/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

namespace hvdlite::comm::nccl {

namespace {

Status Missing(const std::string& what) {
  return Status::Unsupported("NCCL cannot be used: " + what);
}

// The library in the wheel, or an empty text.
std::string InWheel(const Places& places) {
  std::istringstream folders(places.wheel);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = folder + "/nvidia/nccl/lib/" + places.file;
    if (!folder.empty() && access(file.c_str(), F_OK) == 0) return file;
  }
  return "";
}

// The handle is never closed, so the library stays loaded.
Status Open(const Places& places, void** opened, std::string* origin) {
  const auto attempt = [&](const std::string& file, int flags, std::string from) {
    if (file.empty()) return false;
    *opened = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
    *origin = std::move(from);
    return *opened != nullptr;
  };
  if (!places.wanted.empty()) {
    if (attempt(places.wanted, 0, "HVDLITE_NCCL_LIBRARY=" + places.wanted)) return Status::Ok();
    return Missing("HVDLITE_NCCL_LIBRARY=" + places.wanted + ": " + dlerror());
  }
  if (attempt(places.file, RTLD_NOLOAD, "loaded by the framework")) return Status::Ok();
  std::string wheel_says;
  const std::string wheel = InWheel(places);
  if (attempt(wheel, 0, wheel)) return Status::Ok();
  if (!wheel.empty()) wheel_says = std::string(dlerror()) + "; ";
  if (attempt(places.file, 0, "the system's")) return Status::Ok();
  return Missing(wheel_says + dlerror() +
                 ". It comes with PyTorch for CUDA, with `pip install nvidia-nccl-cu13` (cu12 for "
                 "CUDA 12), or from the "
                 "system; HVDLITE_NCCL_LIBRARY names any other");
}

}  // namespace

std::string VersionText(int version) {
  // Up to 2.8 the major version had a factor of 1000: 2804.
  const int major = version < 10000 ? 1000 : 10000;
  return std::to_string(version / major) + "." + std::to_string(version % major / 100) + "." +
         std::to_string(version % 100);
}

// site-packages/nvidia/nccl/lib/libnccl.so.2 and site-packages/nvidia_nccl_cu13-2.28.3.dist-info
int CudaOfPackage(const std::string& library_file) {
  const std::string begin = "nvidia_nccl_cu";
  const auto packages =
      std::filesystem::path(library_file).parent_path().parent_path().parent_path().parent_path();
  int cuda = 0;
  std::error_code no_folder;
  for (std::filesystem::directory_iterator entry(packages, no_folder), end; entry != end;
       entry.increment(no_folder)) {
    const std::string name = entry->path().filename().string();
    if (name.rfind(begin, 0) != 0 || entry->path().extension() != ".dist-info") continue;
    const int named = atoi(name.c_str() + begin.size());
    if (cuda != 0 && cuda != named) return 0;  // both have put their library in the same place
    cuda = named;
  }
  return cuda;
}

Status Library::Check(Result result, std::string_view doing, Comm comm) const {
  if (result == kSuccess || result == kInProgress) return Status::Ok();
  std::string text = "NCCL failed in " + std::string(doing) + ": " + GetErrorString(result);
  const char* last = GetLastError != nullptr ? GetLastError(comm) : nullptr;
  if (last != nullptr && last[0] != '\0') text += std::string(" (") + last + ")";
  if (result == kRemoteError || result == kSystemError)
    return Status::PeerLost(Status::kNoPeer, std::move(text));
  return Status::Io(std::move(text) + "; NCCL_DEBUG=WARN makes NCCL say more");
}

Status Load(const Places& places, std::shared_ptr<const Library>* out) {
  void* opened = nullptr;
  auto library = std::make_shared<Library>();
  HVDLITE_RETURN_IF_ERROR(Open(places, &opened, &library->origin));
  // Check the version first. An old library lacks functions, too, and naming one would be the worse
  // error.
  const auto version = reinterpret_cast<Result (*)(int*)>(dlsym(opened, "ncclGetVersion"));
  if (version == nullptr || version(&library->version) != kSuccess) {
    return Missing(library->origin + " does not say which version it is");
  }
  if (library->version < kOldestVersion) {
    return Missing(library->origin + " is version " + VersionText(library->version) +
                   ", but hvdlite needs " + VersionText(kOldestVersion) + " or newer");
  }
#define HVDLITE_NCCL(returns, name, parameters)                                           \
  library->name = reinterpret_cast<decltype(library->name)>(dlsym(opened, "nccl" #name)); \
  if (library->name == nullptr)                                                           \
    return Missing("there is no nccl" #name " in it (" + library->origin + ")");
#include "comm/nccl/functions.def"
#undef HVDLITE_NCCL
  library->GetLastError =
      reinterpret_cast<decltype(library->GetLastError)>(dlsym(opened, "ncclGetLastError"));
  Dl_info where;
  if (dladdr(reinterpret_cast<void*>(version), &where) != 0)
    library->cuda = CudaOfPackage(where.dli_fname);
  *out = std::move(library);
  return Status::Ok();
}

}  // namespace hvdlite::comm::nccl
