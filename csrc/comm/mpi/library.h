// Library: the MPI of this process, as hvdlite calls it: functions found by name, handles as
// numbers.
//
// Nothing is compiled or linked against any MPI. In Open MPI a handle is a pointer, in MPICH and
// Intel MPI an int: both travel in an integer register, so one declaration calls either; and where
// MPI writes a handle through a pointer the rest of ours is zero already. A status is scratch of
// more bytes than any MPI's has.
//
// Thread-safety: an immutable value. Whether several threads may call its functions at
// once is MPI's to say; here only the holder of the engine's turn does. Failure: Check() makes a
// Status of what a function returns.
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

  // OK for MPI_SUCCESS; else kPeerLost, without saying who, because that is the usual reason and
  // MPI does not tell: with what hvdlite was doing and MPI's own words.
  Status Check(int code, std::string_view doing) const;
  // After MPI_Finalize nothing else may be called.
  bool finalized() const;
};

// The names of handles.def, which Load wants values for.
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

// What this rank can say about its MPI.
struct Access {
  std::shared_ptr<const Library> library;  // null: there is none here, or MPI is not used
  Handle communicator = 0;                 // its ranks are the job's
  std::string name;                        // "Open MPI v5.0.11": of all ranks the same
  std::string absent;                      // a sentence why there is none
  bool asked() const { return library != nullptr || !absent.empty(); }
};

}  // namespace hvdlite::comm::mpi
