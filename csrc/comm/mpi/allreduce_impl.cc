#include "comm/mpi/allreduce_impl.h"

#include <cmath>

#include "comm/mpi/native.h"

namespace hvdlite::comm::mpi {

namespace {

// The cost of MPI messages between processors of one host, or of hosts with a fast network. A
// factor of three hardly matters.
constexpr CostModel kModel{.alpha = 2e-6, .overhead = 0.4e-6, .beta = 0.1e-9, .gamma = 0.05e-9};

// The library's algorithm is unknown. It is assumed to be no worse than halving and doubling along
// a hypercube.
double LibrarySeconds(const Question& question) {
  const double n = question.members;
  const double steps = 2 * std::ceil(std::log2(n));
  const double bytes = static_cast<double>(question.bytes) * (n - 1) / n;
  return steps * (kModel.alpha + kModel.overhead) + bytes * (2 * kModel.beta + kModel.gamma);
}

}  // namespace

AllreduceImpl ChooseImpl(const Question& question, ReduceOp op, const std::string& preference) {
  if (preference == "library" && IsNative(question.dtype, op)) return AllreduceImpl::kLibrary;
  const bool gathers = IsLegal(question, Algorithm::kGather);
  if (preference == "gather" && gathers) return AllreduceImpl::kGather;
  AllreduceImpl way = AllreduceImpl::kOneShot;
  double best = PredictSeconds(question, Algorithm::kOneShot, kModel);
  const auto consider = [&](AllreduceImpl other, double seconds) {
    if (seconds >= best) return;
    way = other;
    best = seconds;
  };
  consider(AllreduceImpl::kDirect, PredictSeconds(question, Algorithm::kDirect, kModel));
  if (gathers)
    consider(AllreduceImpl::kGather, PredictSeconds(question, Algorithm::kGather, kModel));
  // The order in which integers are added makes no difference.
  const bool as_good = IsNative(question.dtype, op) && !IsFloating(question.dtype);
  if (as_good && preference == "auto") consider(AllreduceImpl::kLibrary, LibrarySeconds(question));
  return way;
}

std::string ExplainImpl(const Question& question, ReduceOp op, const std::string& preference) {
  constexpr std::string_view names[] = {"one-shot", "direct", "gather", "MPI_Iallreduce"};
  std::string why(names[static_cast<int>(ChooseImpl(question, op, preference))]);
  why += ", " + std::to_string(question.bytes) + " bytes among " +
         std::to_string(question.members) + " members";
  if (preference == "library" && !IsNative(question.dtype, op)) {
    why += " (" + std::string(Name(op)) + " of " + std::string(Name(question.dtype)) +
           " is not done by MPI, which would round or compare differently)";
  } else if (preference != "auto") {
    why += " (HVDLITE_MPI_ALLREDUCE=" + preference + ")";
  }
  return why;
}

}  // namespace hvdlite::comm::mpi
