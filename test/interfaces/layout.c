// Prints how C lays out messages: one line of JSON for each line "<package> <kind> <name>" on standard
// input, with the size and the offset of each field, as the introspection type support tells them.

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "rosidl_typesupport_introspection_c/message_introspection.h"

typedef rosidl_typesupport_introspection_c__MessageMembers Members;
typedef const rosidl_message_type_support_t * (* Handle)(void);

int main(void)
{
  char package[128], kind[16], name[128], text[512];
  while (scanf("%127s %15s %127s", package, kind, name) == 3) {
    snprintf(text, sizeof(text), "lib%s__rosidl_typesupport_introspection_c.so", package);
    void * library = dlopen(text, RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    snprintf(
      text, sizeof(text),
      "rosidl_typesupport_introspection_c__get_message_type_support_handle__%s__%s__%s",
      package, kind, name);
    Handle handle = (Handle)dlsym(library, text);
    if (!handle) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    const Members * members = (const Members *)handle()->data;
    printf("{\"type\": \"%s/%s/%s\", \"size\": %zu, \"fields\": [", package, kind, name,
      members->size_of_);
    for (uint32_t index = 0; index < members->member_count_; ++index) {
      printf("%s[\"%s\", %u]", index ? ", " : "", members->members_[index].name_,
        members->members_[index].offset_);
    }
    printf("]}\n");
  }
  return 0;
}
