// A library that has the symbols and allocates in no way that could be rewritten.
extern "C" {

int allocating_allocate() {
  return 0;
}
int allocating_inside() {
  return -1;
}
}
