import { shallowRef } from 'vue';
import { getModels } from '../api/conversations.ts';
import type { Models } from '../api/types.ts';

/** Null until it was read. */
export const models = shallowRef<Models | null>(null);

export async function loadModels(): Promise<void> {
  models.value = await getModels();
}
