// Grid: the members of a process set as a table, a row for each host and a column for each place on
// one, so that an allreduce can go along a row, then along the columns, and back along the row.
// DECIDES: pure, and alike on all members but for where each sits.
#pragma once

#include <string>

#include "comm/topology.h"

namespace hvdlite::comm::nccl {

struct Grid {
  bool used = false;
  std::string why;  // a sentence for people; empty if no grid was asked for
  int hosts = 1;
  int places = 1;  // on each host
  int host = 0;    // where this member sits
  int place = 0;
  int first_of_host = 0;   // the member that sits first in its row
  int first_of_place = 0;  // and in its column
};

// Not used where it is not wanted, or where there is but one row or one column, or where rows
// differ in length.
Grid MakeGrid(const Topology& topology, int me, bool wanted);

}  // namespace hvdlite::comm::nccl
