// Mpi: the process's MPI, as passed to init(mpi=...), for the C interface. Owns the strings and
// arrays that the C struct borrows.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <string>
#include <vector>

#include "api/hvdlite.h"

namespace hvdlite::bindings {
namespace py = pybind11;

class Mpi {
 public:
  explicit Mpi(const py::dict& said) {
    if (said.contains("absent")) {
      absent_ = said["absent"].cast<std::string>();
      c_.absent = absent_.c_str();
      return;
    }
    module_ = said["module"].cast<std::string>();
    library_ = said["library"].cast<std::string>();
    handles_ = said["handles"].cast<std::map<std::string, int64_t>>();
    for (const auto& [name, value] : handles_) {
      names_.push_back(name.c_str());
      values_.push_back(value);
    }
    c_.module = module_.c_str();
    c_.names = names_.data();
    c_.handles = values_.data();
    c_.handle_count = static_cast<int32_t>(values_.size());
    c_.in_place = said["in_place"].cast<int64_t>();
    c_.communicator = said["communicator"].cast<int64_t>();
    c_.library = library_.c_str();
  }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  const hvdlite_mpi& as_c() const { return c_; }

 private:
  std::string absent_, module_, library_;
  std::map<std::string, int64_t> handles_;
  std::vector<const char*> names_;
  std::vector<int64_t> values_;
  hvdlite_mpi c_{};
};

}  // namespace hvdlite::bindings
