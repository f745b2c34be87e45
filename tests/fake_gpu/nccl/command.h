// What tests command, and what they are told: settings, failures, complaints, counts. Thread-safe.
#pragma once

#include <string>

namespace fake_nccl {

long Setting(const std::string& name);

// A number below `below`, another one each time.
unsigned Random(unsigned below);
// Sleeps as long as the setting allows, half of the time not at all.
void BeLate();

// Counts the call; the result that it is commanded to return, or 0.
int Called(const std::string& symbol, int rank);

void Complain(const std::string& what);

}  // namespace fake_nccl
