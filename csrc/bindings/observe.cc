#include <signal.h>

#include <functional>
#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/unlocked.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

// `ask` writes as much as fits and returns the length of the text.
std::string Text(const std::function<int64_t(char*, int64_t)>& ask) {
  std::vector<char> text(4096);
  for (;;) {
    const int64_t length =
        WithoutLock([&] { return ask(text.data(), static_cast<int64_t>(text.size())); });
    if (length < static_cast<int64_t>(text.size()))
      return std::string(text.data(), static_cast<size_t>(length));
    text.resize(static_cast<size_t>(length) * 2);  // it may have grown in between
  }
}

// Lets SIGQUIT ask what the program does, instead of ending it. Returns false, and changes nothing,
// if the program or its launcher handles the signal itself.
//
// This is no handler of Python's: the main thread would have to run it, and may be held up.
bool ObeySigquit() {
  struct sigaction action{};
  if (sigaction(SIGQUIT, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return false;
  action.sa_handler = [](int) { hvdlite_wish_report(); };
  action.sa_flags = SA_RESTART;
  return sigaction(SIGQUIT, &action, nullptr) == 0;
}

}  // namespace

void BindObservation(py::module_& module) {
  module.def("start_timeline", [](const std::string& path, bool mark_cycles) {
    ThrowIfError(hvdlite_start_timeline(path.c_str(), mark_cycles ? 1 : 0));
  });
  module.def("stop_timeline",
             [] { ThrowIfError(WithoutLock([] { return hvdlite_stop_timeline(); })); });
  module.def(
      "describe",
      [](const std::string& what) {
        return Text([&](char* text, int64_t capacity) {
          return hvdlite_describe(what.c_str(), text, capacity);
        });
      },
      "JSON: 'metrics' or 'recent'. Text: 'verdict'. Empty without a job.");
  module.def(
      "explain",
      [](int32_t process_set) {
        return Text([&](char* text, int64_t capacity) {
          return hvdlite_explain(process_set, text, capacity);
        });
      },
      "The reason for the process set's communicator.");
  module.def("uses_mpi", [] { return hvdlite_uses_mpi() != 0; });
  module.def(
      "wait_question",
      [](double timeout) {
        const int32_t asked = WithoutLock([&] { return hvdlite_wait_question(timeout); });
        return py::make_tuple(asked, asked < 0 ? hvdlite_last_error() : "");
      },
      "What is asked or told (HVDLITE_ASKED_... of hvdlite.h), and why the job has ended.");
  module.def("obey_sigquit", &ObeySigquit);
  module.def("answer", [](const std::string& place, bool in_wait) {
    hvdlite_answer(place.c_str(), in_wait ? 1 : 0);
  });
}

}  // namespace hvdlite::bindings
