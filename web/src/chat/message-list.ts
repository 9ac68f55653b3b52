/** A file of its own: an empty chat opens without what renders messages, which is a third of the page. */
export const loadMessageList = () => import('./MessageList.vue').then((module) => module.default);
