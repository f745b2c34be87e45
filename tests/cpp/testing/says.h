// What a Status or a text has to be, for EXPECT_TRUE and EXPECT_FALSE: a failure prints all of it.
#pragma once

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "base/status.h"

namespace hvdlite {

inline ::testing::AssertionResult Says(std::string_view text, std::string_view part) {
  const bool found = text.find(part) != std::string_view::npos;
  return (found ? ::testing::AssertionSuccess() : ::testing::AssertionFailure())
         << "looked for \"" << part << "\" in \"" << text << '"';
}

inline ::testing::AssertionResult Says(const Status& status, std::string_view part) {
  return Says(status.message(), part);
}

inline ::testing::AssertionResult FailsWith(const Status& status, StatusCode code,
                                            std::string_view part = "") {
  if (status.code() == code) return Says(status, part);
  return ::testing::AssertionFailure() << status.ToString() << " is no " << StatusCodeName(code);
}

inline ::testing::AssertionResult IsLossOf(int peer, const Status& status,
                                           std::string_view part = "") {
  if (status.peer() == peer) return FailsWith(status, StatusCode::kPeerLost, part);
  return ::testing::AssertionFailure() << status.ToString() << " names rank " << status.peer();
}

// Why a rank is lost, and all ranks concerned.
inline ::testing::AssertionResult IsLossBy(Cause cause, const std::vector<int>& ranks,
                                           const Status& status) {
  if (status.cause() == cause && status.ranks() == ranks) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << status.ToString() << " has cause " << static_cast<int>(status.cause())
         << " and the ranks " << ::testing::PrintToString(status.ranks());
}

}  // namespace hvdlite
