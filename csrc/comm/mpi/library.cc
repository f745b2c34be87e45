#include "comm/mpi/library.h"

#include <dlfcn.h>

namespace hvdlite::comm::mpi {

namespace {

// The size of MPI_Error_string: 512 bytes in Open MPI, 512 or 1024 in MPICH.
constexpr size_t kErrorText = 4096;

Status Missing(const std::string& what) {
  return Status::Unsupported("MPI cannot be used: " + what);
}

}  // namespace

Status Library::Check(int code, std::string_view doing) const {
  if (code == 0) return Status::Ok();
  char text[kErrorText] = "";
  int length = 0;
  if (Error_string(code, text, &length) != 0) text[0] = '\0';
  return Status::PeerLost(
      -1, "MPI failed in " + std::string(doing) + ": " +
              (text[0] != '\0' ? std::string(text) : "error " + std::to_string(code)));
}

bool Library::finalized() const {
  int yes = 0;
  return Finalized(&yes) == 0 && yes != 0;
}

Status Load(const std::string& module, const NamedHandles& handles, void* in_place,
            std::shared_ptr<const Library>* out) {
  // mpi4py has loaded it already. The handle is never closed, so the library stays loaded.
  void* const opened = dlopen(module.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (opened == nullptr) return Missing(module + " is not loaded");
  auto library = std::make_shared<Library>();
  library->in_place = in_place;
#define HVDLITE_MPI(name, parameters)                                                     \
  library->name = reinterpret_cast<decltype(library->name)>(dlsym(opened, "MPI_" #name)); \
  if (library->name == nullptr)                                                           \
    return Missing("there is no MPI_" #name " in " + module + " or what it depends on");
#include "comm/mpi/functions.def"
#undef HVDLITE_MPI
  const auto find = [&](const char* name, Handle* value) {
    for (const auto& [known, handle] : handles) {
      if (known != name) continue;
      *value = handle;
      return true;
    }
    return false;
  };
#define HVDLITE_MPI(name) \
  if (!find(#name, &library->name)) return Missing("its handle MPI_" #name " was not passed");
#include "comm/mpi/handles.def"
#undef HVDLITE_MPI
  *out = std::move(library);
  return Status::Ok();
}

}  // namespace hvdlite::comm::mpi
