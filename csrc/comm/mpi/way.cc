#include "comm/mpi/way.h"

#include <algorithm>

#include "comm/mpi/native.h"

namespace hvdlite::comm::mpi {

namespace {

// A message of MPI between processors of one host, or of hosts with a fast network; a factor of three hardly matters.
constexpr CostModel kModel{.alpha = 2e-6, .overhead = 0.4e-6, .beta = 0.1e-9, .gamma = 0.05e-9};

}  // namespace

Way ChooseWay(const Question& question, ReduceOp op, const std::string& wish) {
  const double one_shot = PredictSeconds(question, Algorithm::kOneShot, kModel);
  const double direct = PredictSeconds(question, Algorithm::kDirect, kModel);
  const Way own = one_shot <= direct ? Way::kOneShot : Way::kDirect;
  if (wish == "direct" || !IsNative(question.dtype, op)) return own;
  if (wish == "library") return Way::kLibrary;
  // What is in the library nobody knows; it will not be worse than the better of these.
  const double library = std::min(PredictSeconds(question, Algorithm::kHalvingDoubling, kModel),
                                  PredictSeconds(question, Algorithm::kRing, kModel));
  return library < std::min(one_shot, direct) ? Way::kLibrary : own;
}

std::string WhyWay(const Question& question, ReduceOp op, const std::string& wish) {
  constexpr std::string_view names[] = {"one-shot", "direct", "MPI_Iallreduce"};
  std::string why(names[static_cast<int>(ChooseWay(question, op, wish))]);
  why += ", " + std::to_string(question.bytes) + " bytes among " + std::to_string(question.members) + " members";
  if (wish == "library" && !IsNative(question.dtype, op)) {
    why += " (" + std::string(Name(op)) + " of " + std::string(Name(question.dtype)) +
           " is not for MPI to do: it would not round, or not compare, as everywhere else)";
  } else if (wish != "auto") {
    why += " (HVDLITE_MPI_ALLREDUCE=" + wish + ")";
  }
  return why;
}

}  // namespace hvdlite::comm::mpi
