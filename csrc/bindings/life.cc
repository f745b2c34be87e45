#include <pybind11/stl.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/mpi.h"
#include "bindings/unlocked.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

void Init(int rank, int size, const std::optional<std::string>& store,
          const std::string& store_prefix, const std::optional<std::string>& secret,
          const std::map<std::string, std::string>& knobs,
          const std::vector<std::vector<int32_t>>& process_sets, const std::string& release,
          const std::optional<py::dict>& mpi,
          const std::optional<std::tuple<int32_t, std::string, int32_t, int32_t>>& generation) {
  std::vector<const char*> pairs;
  for (const auto& [field, value] : knobs) {
    pairs.push_back(field.c_str());
    pairs.push_back(value.c_str());
  }
  std::vector<int32_t> sizes, ranks;
  for (const auto& set : process_sets) {
    sizes.push_back(static_cast<int32_t>(set.size()));
    ranks.insert(ranks.end(), set.begin(), set.end());
  }
  std::optional<Mpi> there;
  if (mpi) there.emplace(*mpi);
  hvdlite_generation numbered{};
  if (generation) {
    numbered = {std::get<0>(*generation), std::get<1>(*generation).c_str(),
                std::get<2>(*generation), std::get<3>(*generation)};
  }
  hvdlite_init_options options{};
  options.generation = generation ? &numbered : nullptr;
  options.mpi = there ? &there->as_c() : nullptr;
  options.rank = rank;
  options.size = size;
  options.store = store ? store->c_str() : nullptr;
  options.store_prefix = store_prefix.c_str();
  options.release = release.c_str();
  options.secret = secret ? secret->c_str() : nullptr;
  options.knobs = pairs.data();
  options.knob_count = static_cast<int32_t>(knobs.size());
  options.set_sizes = sizes.data();
  options.set_ranks = ranks.data();
  options.set_count = static_cast<int32_t>(sizes.size());
  ThrowIfError(WithoutLock([&] { return hvdlite_init(&options); }));
}

hvdlite_place Where() {
  hvdlite_place place;
  ThrowIfError(hvdlite_where(&place));
  return place;
}

std::vector<int32_t> SetRanks(int32_t set) {
  std::vector<int32_t> ranks(64);
  for (;;) {
    const int32_t n =
        hvdlite_process_set_ranks(set, ranks.data(), static_cast<int32_t>(ranks.size()));
    const bool fits = static_cast<size_t>(n) <= ranks.size();
    ranks.resize(static_cast<size_t>(n));
    if (fits) return ranks;
  }
}

std::vector<int32_t> SetIds() {
  std::vector<int32_t> ids(1024);
  ids.resize(static_cast<size_t>(hvdlite_process_set_ids(ids.data(), 1024)));
  return ids;
}

std::vector<std::string> MpiNames() {
  std::vector<std::string> names;
  while (const char* name = hvdlite_mpi_handle_name(static_cast<int32_t>(names.size())))
    names.emplace_back(name);
  return names;
}

}  // namespace

void BindLife(py::module_& module) {
  module.def("init", &Init, py::arg("rank"), py::arg("size"), py::arg("store"),
             py::arg("store_prefix"), py::arg("secret"), py::arg("knobs"), py::arg("process_sets"),
             py::arg("release"), py::arg("mpi") = py::none(), py::arg("generation") = py::none());
  module.def("mpi_names", &MpiNames,
             "The names of the MPI handles whose values init(mpi=...) needs.");
  module.def(
      "shutdown",
      [](double timeout) -> std::string {
        const Unlocked unlocked;
        return hvdlite_shutdown(timeout) == HVDLITE_OK ? "" : hvdlite_last_error();
      },
      "Leaves the job. Returns why the job has failed; empty: it has not.");
  module.def(
      "failure",
      []() -> std::string { return hvdlite_health() == HVDLITE_OK ? "" : hvdlite_last_error(); },
      "Why the job has failed; empty: it has not, or there is no job.");
  module.def(
      "ended",
      []() -> std::string { return hvdlite_ended() == HVDLITE_OK ? "" : hvdlite_last_error(); },
      "Why nothing can be submitted any more, also after an orderly end; empty: something can.");
  module.def("abort", [](const std::string& why) {
    const Unlocked unlocked;
    hvdlite_abort(why.c_str());
  });
  module.def(
      "end_generation",
      [](int32_t number, const std::string& why) {
        const Unlocked unlocked;
        hvdlite_end_generation(number, why.c_str());
      },
      "Ends this generation of an elastic job on all ranks; another one is not touched.");
  module.def("threads_inside", &Unlocked::ThreadsInside,
             "The number of threads in a call without the interpreter lock.");
  module.def("is_initialized", [] { return hvdlite_is_initialized() != 0; });
  module.def(
      "has_place",
      [] {
        hvdlite_place place;
        return hvdlite_where(&place) == HVDLITE_OK;
      },
      "Whether this process, or the one that has forked it, is in a job.");
  module.def("rank", [] { return Where().rank; });
  module.def("size", [] { return Where().size; });
  module.def("local_rank", [] { return Where().local_rank; });
  module.def("local_size", [] { return Where().local_size; });
  module.def("cross_rank", [] { return Where().cross_rank; });
  module.def("cross_size", [] { return Where().cross_size; });
  module.def("is_homogeneous", [] { return Where().is_homogeneous != 0; });
  module.def("process_set_ranks", &SetRanks);
  module.def("process_set_ids", &SetIds);
}

}  // namespace hvdlite::bindings
