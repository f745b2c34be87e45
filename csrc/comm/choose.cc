#include "comm/choose.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <numeric>

namespace hvdlite::comm {

namespace {

int CeilLog2(int n) {
  return n <= 1 ? 0 : std::bit_width(static_cast<unsigned>(n - 1));
}

std::string Bytes(int64_t bytes) {
  char text[32];
  if (bytes < 1024) {
    std::snprintf(text, sizeof(text), "%lld B", static_cast<long long>(bytes));
  } else if (bytes < (1 << 20)) {
    std::snprintf(text, sizeof(text), "%.4g KiB", static_cast<double>(bytes) / 1024);
  } else {
    std::snprintf(text, sizeof(text), "%.4g MiB", static_cast<double>(bytes) / (1 << 20));
  }
  return text;
}

std::string Time(double seconds) {
  char text[32];
  if (seconds < 1e-3) {
    std::snprintf(text, sizeof(text), "%.3g us", seconds * 1e6);
  } else {
    std::snprintf(text, sizeof(text), "%.3g ms", seconds * 1e3);
  }
  return text;
}

}  // namespace

Question QuestionOf(const Batch& batch, int members) {
  int64_t elements = 0;
  for (const Piece& piece : batch.pieces) {
    elements += std::accumulate(piece.counts.begin(), piece.counts.end(), piece.count);
  }
  Question question;
  question.op = batch.kind;
  question.dtype = batch.dtype;
  question.adasum = batch.adasum;
  question.bytes = elements * static_cast<int64_t>(SizeOf(batch.dtype));
  question.members = members;
  return question;
}

bool IsLegal(const Question& question, Algorithm algorithm) {
  switch (question.op) {
    case OpKind::kAllreduce:
      if (question.adasum) return algorithm == Algorithm::kAdasum;
      switch (algorithm) {
        case Algorithm::kOneShot:
        case Algorithm::kDirect: return true;
        case Algorithm::kGather:
          return question.members > 1 && question.bytes <= kGatherMaxBytes / question.members;
        default: return false;
      }
    case OpKind::kAllgather:
      return algorithm == Algorithm::kPairwise || algorithm == Algorithm::kRing;
    case OpKind::kBroadcast: return algorithm == Algorithm::kTree || algorithm == Algorithm::kChain;
    case OpKind::kAlltoall: return algorithm == Algorithm::kPairwise;
    case OpKind::kReducescatter: return algorithm == Algorithm::kDirect;
    case OpKind::kBarrier: return algorithm == Algorithm::kDissemination;
    default: return false;
  }
}

double PredictSeconds(const Question& question, Algorithm algorithm, const CostModel& model) {
  const double n = question.members;
  const double bytes = static_cast<double>(question.bytes);
  const double log_n = CeilLog2(question.members);
  // All members talk to all: of the n-1 peers n-k are behind the card that k members share.
  const double k = question.members_per_card;
  const double crowd = n > 1 ? std::max(1.0, k * (n - k) / (n - 1)) : 1.0;
  const double share = bytes * (n - 1) / n;  // all but the member's own part
  const double message = model.overhead;
  const bool reduces = question.op == OpKind::kAllreduce;
  switch (algorithm) {
    case Algorithm::kOneShot:
      return model.alpha + (n - 1) * (message + bytes * (model.beta * crowd + model.gamma));
    case Algorithm::kDirect: {
      const double phases = reduces ? 2 : 1;
      return phases * (model.alpha + (n - 1) * message + share * model.beta * crowd) +
             share * model.gamma;
    }
    // All k members of a card send stretches to other hosts at once.
    case Algorithm::kGather:
      return log_n * (model.alpha + message) + (n - 1) * bytes * (model.beta * k + model.gamma);
    case Algorithm::kRing: return (n - 1) * (model.alpha + message) + share * model.beta;
    case Algorithm::kPairwise: return model.alpha + (n - 1) * message + share * model.beta * crowd;
    case Algorithm::kTree: return log_n * (model.alpha + message) + log_n * bytes * model.beta;
    case Algorithm::kChain: return (n - 1) * (model.alpha + message) + bytes * model.beta;
    case Algorithm::kDissemination: return log_n * (model.alpha + message);
    case Algorithm::kAdasum:
      return (2 * log_n + log_n * (log_n + 1) / 2) * (model.alpha + message) +
             share * (2 * model.beta * k + 2 * model.gamma);
  }
  return 0;
}

Choice Choose(const Question& question, const CostModel& model) {
  Choice choice;
  int legal = 0;
  for (int i = 0; i < kAlgorithmCount; ++i) {
    const auto candidate = static_cast<Algorithm>(i);
    if (!IsLegal(question, candidate)) continue;
    const double seconds = PredictSeconds(question, candidate, model);
    ++legal;
    if (legal == 1 || seconds < choice.seconds) {
      if (legal > 1) {
        choice.runner_up = choice.algorithm;
        choice.runner_up_seconds = choice.seconds;
      }
      choice.algorithm = candidate;
      choice.seconds = seconds;
    } else if (legal == 2 || seconds < choice.runner_up_seconds) {
      choice.runner_up = candidate;
      choice.runner_up_seconds = seconds;
    }
  }
  choice.only_one = legal <= 1;
  return choice;
}

std::string Why(const Question& question, const Choice& choice) {
  std::string text(Name(choice.algorithm));
  text += ": " + Bytes(question.bytes) + " among " + std::to_string(question.members) +
          (question.members == 1 ? " member" : " members");
  text += ", " + Time(choice.seconds) + " predicted";
  if (choice.forced) {
    text += " (forced)";
  } else if (choice.only_one) {
    text += " (the only algorithm for " +
            std::string(question.adasum ? "adasum" : Name(question.op)) + ")";
  } else {
    text +=
        " (" + std::string(Name(choice.runner_up)) + ": " + Time(choice.runner_up_seconds) + ")";
  }
  if (Has(question.op, kReduces) && !question.adasum &&
      (question.dtype == DType::kFloat16 || question.dtype == DType::kBFloat16)) {
    text += "; " + std::string(Name(question.dtype)) + " is summed in float32 and rounded once";
  }
  return text;
}

}  // namespace hvdlite::comm
