// Library: the functions and handles of this process's MPI that hvdlite uses. Functions are found
// by name; handles are numbers.
//
// Nothing is compiled or linked against any MPI. In Open MPI a handle is a pointer, in MPICH and
// Intel MPI an int. Both travel in an integer register, so one declaration calls either. Where MPI
// writes an int through a pointer, the rest of our handle is already zero. A status is scratch
// memory with more bytes than any MPI needs.
//
// Thread-safety: an immutable value. MPI decides whether several threads may call its functions at
// once; here only the holder of the engine's turn does. Failure: Check() makes a Status of what a
// function returns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace hvdlite::comm::mpi {

using Handle = intptr_t;

struct alignas(16) StatusScratch {
  char bytes[128];
};

struct Library {
#define HVDLITE_MPI(name, parameters) int(*name) parameters = nullptr;
#include "comm/mpi/functions.def"
#undef HVDLITE_MPI
#define HVDLITE_MPI(name) Handle name = 0;
#include "comm/mpi/handles.def"
#undef HVDLITE_MPI
  void* in_place = nullptr;  // MPI_IN_PLACE

  // Returns OK for MPI_SUCCESS, otherwise kPeerLost with `doing` and MPI's description. A lost peer
  // is the usual reason. MPI does not tell which peer, so the status names none.
  Status Check(int code, std::string_view doing) const;
  // Whether MPI_Finalize has been called. After that, no other function may be called.
  bool finalized() const;
};

// The names of handles.def. Load needs a value for each.
constexpr std::string_view kHandleNames[] = {
#define HVDLITE_MPI(name) #name,
#include "comm/mpi/handles.def"
#undef HVDLITE_MPI
};

using NamedHandles = std::vector<std::pair<std::string, Handle>>;

// Finds the functions through `module`, a shared library of this process that depends on the MPI:
// mpi4py's. kUnsupported: it is not loaded, lacks a function, or a handle is missing.
Status Load(const std::string& module, const NamedHandles& handles, void* in_place,
            std::shared_ptr<const Library>* library);

// This rank's MPI.
struct Access {
  std::shared_ptr<const Library> library;  // null: there is none, or MPI is not used
  Handle communicator = 0;                 // its ranks are the job's
  std::string name;                        // "Open MPI v5.0.11", the same on all ranks
  std::string absent;                      // why there is none
  bool asked() const { return library != nullptr || !absent.empty(); }
};

}  // namespace hvdlite::comm::mpi
